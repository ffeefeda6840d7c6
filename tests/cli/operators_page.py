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

Every operator kind of the catalogue with its sharding rule. `make docs` writes this page.
`planner inspect --operators` prints the same table, `planner inspect MODEL --operators` that of the
kinds in a model. [extending.md](extending.md) shows how to add a kind, or a sharding rule for a
custom operator.

{legend}

- `since`: the first ONNX opset with the kind, and the last one if the kind was deprecated
- `split`: whether the typical operator can be sharded
- `gradient`: operands that can have a gradient
"""
_LEFT = """\
## Without a rule

An operator without a rule is replicated: every device runs it whole, at the cost of the bytes that
it moves. Gradients are assumed to pass through it. `planner search` lists these operators; `--rule`
gives one a sharding rule.

{repeated}.

{notes}

## Refused

The size of the result is unknown: {refused}.

A model with them is read if it annotates the sizes of tensors, or all operands are constants."""


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
