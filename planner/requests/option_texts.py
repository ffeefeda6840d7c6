"""Options as text, checked and turned into values. Imports nothing heavy."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from planner.requests.errors import UserError, unknown_name
from planner.requests.sources import Document

if TYPE_CHECKING:
    from ir.symbols import Symbol

PHASES = ("train", "infer")
DTYPES = ("bf16", "fp16", "fp32")
OPTIMIZERS = (
    "adamw", "adam", "sgd", "momentum", "adagrad", "lamb", "adafactor", "muon", "none",
)  # fmt: skip
"""Of `costmodel.memory.Optimizer`, which is slow to import."""
ATTENTION = ("fused", "decomposed")
TARGETS = ("mindspore", "jax", "torch", "generic")
"""Of `ir.dialects`, which is slow to import."""
FRAMEWORK_NAMES = "MindSpore's names"
"""Heading of options that have another name in a target's framework."""
ROBUST = "robust"
RANKS = (ROBUST, "median")
LAYOUT_ATTENTION = ("auto", *ATTENTION)

MAX_DEVICES = 2**20
"""Larger than any machine there is; keeps a slip of the finger from filling the memory."""
MAX_TUPLE_TEXT = 10_000
MAX_SHOWN = 200
"""Characters of a faulty argument that a message repeats."""

_TRUTHS = {"true": 1, "false": 0}
"""What the condition of an If may be bound to."""
_TUPLES = re.compile(r"[\d,()\[\]\s]*")


def one_of(value: str, known: Collection[str], option: str, noun: str) -> str:
    """The value, if it is a known name."""
    if value not in known:
        raise unknown_name(noun, value, known, f"{option} {value}")
    return value


def count_or_one_of(value: str, known: Collection[str], option: str) -> str:
    """The value, if it is a known name or a number of 1 or more."""
    if value not in known and not is_count(value):
        fix = f"use {', '.join(known)} or a number of 1 or more"
        raise UserError(f"{value[:MAX_SHOWN]!r} is no value of {option}", f"{option} {value}", fix)
    return value


def is_count(text: str) -> bool:
    """Whether a text is a number of 1 or more, of at most nine digits."""
    return text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0


def check_range(value: float, least: int, most: int | None, option: str) -> None:
    """Raise `UserError` for a number below or above what its option takes."""
    noun, where = "whole number" if isinstance(value, int) else "number", f"{option} {value}"
    fix = f"give a {noun}, {least} or more"
    if most is not None:
        fix = f"give a {noun} from {least} to {most}"
        if value > most:
            raise UserError(f"{value} is more than {most}", where, fix)
    if value < least:
        raise UserError(f"{value} is less than {least}", where, fix)


def time_limit_s(value: float) -> float:
    """Seconds after which a search must end."""
    if not (value > 0 and math.isfinite(value)):
        raise UserError(
            f"{value:g} s is no time to search in",
            f"--time-limit {value:g}",
            "give seconds, such as 30",
        )
    return value


def bindings(texts: Sequence[str]) -> dict[str, int | Symbol]:
    """Sizes of dynamic dimensions, or the range of them.

    >>> bindings(["batch=32,seq=4096", "past=1"])
    {'batch': 32, 'seq': 4096, 'past': 1}
    """
    found: dict[str, int | Symbol] = {}
    for text in texts:
        for item in text.split(","):
            name, equals, number = (part.strip() for part in item.rpartition("="))
            size = _size(number, text) if equals and name else None
            if size is None:
                raise UserError(
                    f"{item!r} binds no dimension",
                    f"--bind {text}",
                    "write name=number with a positive number, such as --bind batch=32,seq=4096, "
                    "or a range of them, such as --bind batch=16..64/16",
                )
            if found.setdefault(name, size) != size:
                raise UserError(
                    f"{name!r} is bound to {found[name]} and to {number}",
                    f"--bind {text}",
                    "bind every dimension once",
                )
    return found


def with_sequence(bind: Sequence[str] | None, sequence: int | None) -> list[str]:
    """The bindings, with the length of a sequence among them if it is given.

    >>> with_sequence(["batch=8"], 4096)
    ['batch=8', 'sequence=4096']
    """
    return [*(bind or []), *([] if sequence is None else [f"sequence={sequence}"])]


def _size(number: str, text: str) -> int | Symbol | None:
    if number in _TRUTHS:
        return _TRUTHS[number]
    if re.fullmatch(r"[1-9]\d{0,12}", number):
        return int(number)
    if ".." not in number:
        return None
    from ir.symbols import SymbolError, parse_symbol  # noqa: PLC0415  brings in the catalogue

    try:
        return parse_symbol(number)
    except SymbolError as error:
        fix = "write the least and the most size and what divides them all, such as batch=16..64/16"
        raise UserError(str(error), f"--bind {text}", fix) from error


def dataset_strategy(text: str | None) -> str | tuple[tuple[int, ...], ...] | None:
    """How the inputs arrive: a name, or cut counts for the dims of each input.

    >>> dataset_strategy("((8,1),(8,1))")
    ((8, 1), (8, 1))
    """
    if text in {None, "data_parallel", "full_batch"}:
        return text
    value = _tuples(text or "")
    if value is None:
        raise UserError(
            f"{text!r} is no dataset strategy",
            "--dataset-strategy",
            "write data_parallel, full_batch, or cuts for every input, such as '((8,1),(8,1))'",
        )
    return value


def pins(texts: Sequence[str]) -> tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]:
    """Names of operators with the cuts that they are held to, each given once.

    >>> pins(["layers.*.up=((2,4),(4,1))"])
    (('layers.*.up', ((2, 4), (4, 1))),)
    """
    found: dict[tuple[str, tuple[tuple[int, ...], ...]], None] = {}
    for text in texts:
        name, _, strategy = (part.strip() for part in text.rpartition("="))
        cuts = _tuples(strategy)
        if not name or cuts is None:
            raise UserError(
                f"{text[:MAX_SHOWN]!r} pins no operator",
                "--pin",
                "write the operator's name and the cuts of every input, such as "
                "--pin 'NAME=((2,4),(4,1))'",
            )
        found[name, cuts] = None
    return tuple(sorted(found))


def export_settings(texts: Sequence[str]) -> dict[str, str]:
    """Settings of an export, each given once.

    >>> export_settings(["script=train.py", "comm_fusion=allreduce=auto"])
    {'script': 'train.py', 'comm_fusion': 'allreduce=auto'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UserError(
                f"{text[:MAX_SHOWN]!r} sets nothing", "--set", "write NAME=VALUE, such as port=8118"
            )
        if found.setdefault(name, value) != value:
            raise UserError(
                f"{name!r} is set twice", f"--set {text[:MAX_SHOWN]}", "set every name once"
            )
    return found


def _tuples(text: str) -> tuple[tuple[int, ...], ...] | None:
    if len(text) > MAX_TUPLE_TEXT or not _TUPLES.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, tuple | list) or not value:
        return None
    if not all(isinstance(cuts, tuple | list) for cuts in value):
        return None
    if not all(isinstance(cut, int) and cut >= 1 for cuts in value for cut in cuts):
        return None
    return tuple(tuple(cuts) for cuts in value)


def memory_bytes(text: str | None) -> float | None:
    """Bytes of a capacity such as `60GiB`."""
    if text is None:
        return None
    from topology.errors import UnitError  # noqa: PLC0415  brings in yaml and numpy
    from topology.units import parse_bytes  # noqa: PLC0415

    fix = "write a number and a unit, such as --memory 60GiB"
    try:
        value = parse_bytes(text)
    except UnitError as error:
        raise UserError(error.what, f"--memory {text}", fix) from error
    if not (value >= 1 and math.isfinite(value)):
        raise UserError(f"{text!r} is no memory to plan with", f"--memory {text}", fix)
    return value


def named_parts(text: str, known: Sequence[str], noun: str, option: str) -> dict[str, str]:
    """The parts of a text between commas; one without `=` has an empty value.

    >>> named_parts("tp=8, sp", ("tp", "sp"), "part of a layout", "--layout")
    {'tp': '8', 'sp': ''}

    Args:
        text: what the user wrote.
        known: names that may stand in it.
        noun: what a name is, for errors.
        option: where it was given.

    Raises:
        UserError: an unknown name, or one given twice.
    """
    out: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, _, value = (side.strip() for side in part.partition("="))
        if key not in known:
            raise unknown_name(noun, key, known, f"{option} {text}")
        if key in out:
            raise UserError(f"{key} is given twice", f"{option} {text}", "give it once")
        out[key] = value
    return out


_FIX = "write kind, colon and rule, such as 'custom::Twist: b s -> b s'"


def rules(texts: Sequence[str], file: Document | None) -> tuple[tuple[str, str], ...]:
    """Kinds of operators, each with the notation of its rule, in order.

    >>> rules(["custom::Twist: b  s -> b s"], None)
    (('custom::Twist', 'b s -> b s'),)

    Raises:
        UserError: a text is no rule.
    """
    given = [_rule(text, f"--rule {text!r}") for text in texts]
    if file is not None:
        given += [_rule(text, place) for text, place in _lines(file)]
    return tuple(sorted(given))


def _rule(text: str, place: str) -> tuple[str, str]:
    """The last colon ends the kind, for the kind may hold colons and a rule holds none."""
    kind, _, notation = text.rpartition(":")
    kind, notation = kind.strip(), " ".join(notation.split())
    if not kind or kind.endswith(":") or "->" not in notation:
        raise UserError(f"{text.strip()!r} gives no rule to a kind of operator", place, _FIX)
    return kind, notation


def _lines(file: Document) -> Iterator[tuple[str, str]]:
    """Lines with where they stand; a `#` begins a comment."""
    for number, line in enumerate(file.text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            yield content, f"line {number} of {file.name}"


PICTURES = (".svg", ".png")


def check_drawing(option: str) -> None:
    """Raise `UserError` if what draws is not installed."""
    if find_spec("matplotlib") is None:
        raise UserError(
            "matplotlib is not installed", option, "pip install 'parallel-planner[plot]'"
        )
