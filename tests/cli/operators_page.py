"""docs/operators.md: the coverage of the operator catalogue, as `planner inspect --operators`.

`make docs` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from cli.coverage_text import LEGEND, version_text
from importers.onnx_coverage import (
    KindCoverage,
    Treatment,
    by_family,
    meaning_of,
    operator_coverage,
)
from ir.ops import lookup
from tests.cli.docs_output import ROOT

_MANY = 10
PAGE = ROOT / "docs" / "operators.md"

_HEAD = """\
# Operators

What the planner knows of each kind of operator, written by `make docs` from the catalogue.
`planner inspect --operators` prints the same, `planner inspect MODEL --operators` what is known of
the kinds in a model. [extending.md](extending.md) tells how to add one, or to give an operator of
your own a rule.

{legend}

`since` is the first opset that has the kind, and the last if it was given up. `split` says whether
the typical operator can be split at all. `gradient` are the operands that can have one.
"""
_LEFT = """\
## Without a rule

Each device does the whole work of such an operator, at the price of the bytes that it moves, and
gradients are taken to go through it. `planner search` lists it; a rule given with `--rule` changes
that.

{repeated}.

{notes}

## Refused

What they make is no tensor of known size: {refused}.

Where a model annotates the sizes of its tensors, or all operands are constants, it is read."""


def operators_page() -> str:
    """The text of the page."""
    found = operator_coverage()
    parts = [_HEAD.format(legend=LEGEND), *_families(found), _converted(found), _left(found)]
    return "\n".join(map(_wrapped, "\n".join(parts).split("\n"))) + "\n"


def _wrapped(line: str) -> str:
    """A line of a page is not long, but for those of tables."""
    if line.startswith("|"):
        return line
    indent = "  " if line.startswith("- ") else ""
    return fill(line, 150, subsequent_indent=indent, break_on_hyphens=False)


def _families(found: Sequence[KindCoverage]) -> Iterator[str]:
    for family, kinds in by_family(found).items():
        yield f"## {family}\n"
        yield _table(("kind", "since", "split", "gradient", "rule"), map(_row, kinds))
        yield "\n".join(_in_words(kinds)) + "\n"


def _row(each: KindCoverage) -> tuple[str, ...]:
    split = {True: "yes", False: "no", None: ""}[each.splits]
    rule = "; ".join((f"`{each.rule}`", *each.remarks)) if each.rule else ""
    return f"`{each.kind}`", version_text(each), split, each.gradient, rule


def _in_words(kinds: Sequence[KindCoverage]) -> Iterator[str]:
    """The rules in words; the most usual of several comes last, of all others."""
    found = _meanings(kinds)
    most = max(found, key=lambda text: len(found[text]))
    for text, same in found.items():
        if text != most:
            yield f"- {', '.join(same)}: {text}"
    yield f"- {', '.join(found[most]) if len(found[most]) < _MANY else 'All others'}: {most}"


def _meanings(kinds: Sequence[KindCoverage]) -> dict[str, list[str]]:
    """Rules in words, each with the kinds that have it."""
    out: dict[str, list[str]] = {}
    for each in kinds:
        text = each.meaning or meaning_of(lookup(each.kind))
        out.setdefault(text.strip(), []).append(each.kind.rpartition("::")[2])
    return out


def _converted(found: Sequence[KindCoverage]) -> str:
    rows = (
        (f"`{each.kind}`", version_text(each), ", ".join(each.becomes) or "others")
        for each in found
        if each.treatment is Treatment.CONVERTED
    )
    return "## Converted when a model is read\n\n" + _table(("kind", "since", "becomes"), rows)


def _left(found: Sequence[KindCoverage]) -> str:
    kinds = {t: [e for e in found if e.treatment is t] for t in Treatment}
    repeated = kinds[Treatment.REPEATED]
    return _LEFT.format(
        repeated=", ".join(f"`{each.kind}`" for each in repeated),
        notes=" ".join(f"`{each.kind}`: {each.meaning}" for each in repeated if each.meaning),
        refused=", ".join(f"`{each.kind}`" for each in kinds[Treatment.REFUSED]),
    )


def _table(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [" | ".join(heads), "|".join("---" for _ in heads), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(operators_page(), encoding="utf-8")
