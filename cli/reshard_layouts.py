"""Layouts, names and lists of ranks as `planner reshard` is given them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from executors.checkpoint.pairing import Rename
    from executors.checkpoint.tensors import SourceTensor
    from ir.plan import Plan
    from ir.slicing import Slicing

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
_MOST_RANKS = 2**20
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class GivenLayout:
    """What `--from` or `--to` names."""

    slicing: Slicing
    plan: Plan | None = None
    """If it is a plan.json."""


def read_layout(path: Path) -> GivenLayout:
    """A plan, or a strategy file.

    Raises:
        PlanFileError, StrategyFileError, UserError: it is neither, or is damaged.
    """
    from exporters.formats import file_slicing  # noqa: PLC0415
    from ir.plan_file import read_plan  # noqa: PLC0415
    from ir.plan_slicing import plan_slicing  # noqa: PLC0415

    if path.is_dir():
        what = f"{path} is a folder"
        raise UserError(what, "a layout", "name the plan.json or the strategy file in it")
    if _is_plan(path):
        plan = read_plan(path, staged=True)
        return GivenLayout(plan_slicing(plan, str(path)), plan)
    return GivenLayout(file_slicing(path))


def _is_plan(path: Path) -> bool:
    """Whether a JSON file begins as a plan does; strategy files have no format."""
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as file:
            return b'"parallel-plan"' in file.read(_HEAD_BYTES)
    except OSError:
        return False


def rank_numbers(text: str, option: str) -> tuple[int, ...]:
    """Numbers and ranges of them.

    >>> rank_numbers("0-2,5", "--like")
    (0, 1, 2, 5)
    """
    out: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
        if last < first or len(out) + last - first >= _MOST_RANKS:
            raise UserError(
                f"{part!r} is no number or range", f"{option} {text}", "write 0-3,8 or 0,1,2,3,8"
            )
        out += range(first, last + 1)
    return tuple(out)


def ties_of(texts: Sequence[str]) -> dict[str, str]:
    """Tensors that equal others."""
    out = {}
    for text in texts:
        new, found, old = text.partition("=")
        if not (found and new and old) or new in out:
            raise UserError(f"{text!r} is no NEW=OLD", "--tie", "write each new name once")
        out[new] = old
    return out


def renames_for(
    source: str, names: Sequence[str], *, reverse: bool, axes: dict[str, int]
) -> tuple[Rename, ...]:
    """What a names file says of these parameters, which have the names of the model's file.

    Args:
        source: the names file, or a network whose names are known.
        names: of the parameters.
        reverse: the checkpoint has the network's names.
        axes: dimension along which a parameter has parts, where it is not the last one.

    Raises:
        ExportError, UserError: the file is damaged, or an entry matches nothing.
    """
    from executors.checkpoint.pairing import Rename  # noqa: PLC0415
    from exporters.formats import name_rules  # noqa: PLC0415

    out: dict[str, Rename] = {}
    for rule in name_rules(source):
        matches = [(name, rule.pattern.fullmatch(name)) for name in names]
        found = [(name, match) for name, match in matches if match]
        if not found and not rule.optional:
            what = f"the pattern {rule.pattern.pattern!r} matches no parameter"
            raise UserError(what, rule.at, "mend it, or add `optional: true`")
        for name, match in found:
            if name in out:
                raise UserError(f"{name!r} is matched twice", rule.at, "let one pattern match it")
            new = tuple(match.expand(template) for template in rule.names)
            axis = axes.get(name, -1)
            if reverse:
                turned = -1 - axis if rule.transpose else axis
                out[name] = Rename(new, (name,), rule.transpose, turned)
            else:
                out[name] = Rename((name,), new, rule.transpose, axis)
    return tuple(out.values())


def stacks_for(texts: Sequence[str], tensors: Mapping[str, SourceTensor]) -> tuple[Rename, ...]:
    """Tensors that become one, or come of one, with a first dimension of its own.

    Raises:
        UserError: a text is no OLD=NEW with `{}` on one side, or matches nothing, or a number is
            missing.
    """
    from executors.checkpoint.pairing import Rename  # noqa: PLC0415

    out: list[Rename] = []
    for text in texts:
        old, _, new = text.partition("=")
        if {old.count("{}"), new.count("{}")} != {0, 1} or old.count("*") != new.count("*"):
            fix = "write one {} in all, and as many * on either side"
            raise UserError(f"{text!r} is no OLD=NEW", "--stack", fix)
        pattern = re.escape(old).replace(r"\{\}", r"(?P<number>\d{1,6})")
        pattern = pattern.replace(r"\*", r"([^.]+(?:\.[^.]+)*?)")
        found = [(m, name) for name in tensors if (m := re.fullmatch(pattern, name))]
        if not found:
            raise UserError(f"{old!r} matches no tensor", "--stack", "mend the pattern")
        if "{}" in old:
            out += [Rename(parts, (one,), stack=True) for one, parts in _stacked(found, new)]
            continue
        for match, name in found:
            one = _filled(new, match)
            count = tensors[name].dims[0] if tensors[name].dims else 0
            out.append(
                Rename((name,), tuple(one.replace("{}", str(i)) for i in range(count)), stack=True)
            )
    return tuple(out)


def _stacked(
    found: Sequence[tuple[re.Match[str], str]], new: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each new name with the old ones in the order of their numbers."""
    groups: dict[str, dict[int, str]] = {}
    for match, name in found:
        groups.setdefault(_filled(new, match), {})[int(match["number"])] = name
    for one, parts in groups.items():
        if set(parts) != set(range(len(parts))):
            what = f"the parts of {one!r} are numbered {', '.join(map(str, sorted(parts)))[:80]}"
            raise UserError(what, "--stack", "number them from 0 without gaps")
        yield one, tuple(parts[i] for i in range(len(parts)))


def _filled(new: str, match: re.Match[str]) -> str:
    """The new name with what the stars stood for."""
    number = match.re.groupindex.get("number", 0)
    texts = iter([t for i, t in enumerate(match.groups(), 1) if i != number])
    return "".join(next(texts) if part == "*" else part for part in re.split(r"(\*)", new))


def part_axes(plan: Plan | None) -> dict[str, int]:
    """For each parameter of a plan the dimension of the file that is the last one in the graph."""
    if plan is None:
        return {}
    return {
        tensor.source or tensor.name: tensor.stored_permutation[-1]
        for tensor in plan.graph.parameters
        if tensor.stored_permutation
    }
