"""The coverage of the operator catalogue in sentences and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from importers.onnx_coverage import by_family
from report.tables import Head, Lines, Part, Table, Unit, numbers

if TYPE_CHECKING:
    from importers.onnx_coverage import KindCoverage
    from report.coverage import ModelKind

LEFT = {
    "repeated": "Without a rule: replicated on every device, unless --rule gives one",
    "refused": "Refused: what they make is no tensor of known size",
}
LEGEND = """\
A rule is that of a typical operator: a letter is a factor that may be split, `a!` one that stays
whole, 1 a dimension without a factor, `(a=4 b)` one of two factors, `_` an operand that every
device has, nothing between two commas a single number. What follows from constants alone is
computed when a model is read."""
_SPLIT = {True: "yes", False: "no", None: ""}


def catalogue_parts(found: Sequence[KindCoverage]) -> Iterator[Part]:
    """Every kind: those with a rule by family, then what becomes of the others."""
    yield Head(f"{len(found)} kinds: {_counts(found)}")
    for family, own in by_family(found).items():
        yield _family(family, own)
    converted = [
        (each.kind, version_text(each), ", ".join(each.becomes) or "others")
        for each in found
        if each.treatment == "converted"
    ]
    columns = ("kind", ("since", Unit.NUMBER), "becomes")
    yield Table.of("Converted when a model is read", columns, converted)
    for treatment, title in LEFT.items():
        kinds = [each for each in found if each.treatment == treatment]
        told = kinds if treatment == "repeated" else ()
        meanings = (f"{each.kind}: {each.meaning}" for each in told if each.meaning)
        yield Lines(title, (", ".join(each.kind for each in kinds), *meanings))
    yield Lines("", (f"\n{LEGEND}",))


def _family(family: str, kinds: Sequence[KindCoverage]) -> Table:
    columns = (("kind", Unit.NAME), ("since", Unit.NUMBER), "split", "gradient", "rule")
    rows = [(k.kind, version_text(k), _SPLIT[k.splits], k.gradient, shown_rule(k)) for k in kinds]
    return Table.of(family, columns, rows)


def version_text(each: KindCoverage) -> str:
    """The versions of the domain's operators that have a kind; nothing for one that is ours."""
    if each.since is None:
        return ""
    return f"{each.since}" if each.until is None else f"{each.since}-{each.until - 1}"


def shown_rule(each: KindCoverage) -> str:
    """The typical operator's rule in notation, else the rule in words."""
    return "; ".join((each.rule, *each.remarks)) if each.rule else each.meaning


def _counts(found: Sequence[KindCoverage]) -> str:
    """How many are treated in which way."""
    words = {"rule": "with a rule", "converted": "converted", "repeated": "repeated",
             "refused": "refused"}  # fmt: skip
    counts = Counter(str(each.treatment) for each in found)
    return ", ".join(f"{counts[key]} {text}" for key, text in words.items() if counts[key])


def kind_parts(name: str, kinds: Sequence[ModelKind]) -> Iterator[Part]:
    """The kinds of a model, those without a rule first."""
    unknown = [each for each in kinds if not each.known]
    yield Head(f"{name}: {_known(kinds, unknown)}")
    columns = (("kind", Unit.NAME), *numbers("nodes", "operators"), "split", "gradient", "rule")
    rows = [
        (k.kind, k.nodes or None, k.operators or None, _split_text(k), k.gradient, _of_model(k))
        for k in kinds
    ]
    yield Table.of("Kinds", columns, rows)
    yield Lines("", (f"\n{LEGEND}",))
    if unknown:
        rule = f"--rule '{unknown[0].kind}: RULE'"
        told = f"Give the kinds without a rule one, as in {rule}: docs/extending.md tells how."
        yield Lines("", (told,))


def _known(kinds: Sequence[ModelKind], unknown: Sequence[ModelKind]) -> str:
    if not unknown:
        return f"all {len(kinds)} kinds of operators are known"
    return f"{len(kinds) - len(unknown)} of {len(kinds)} kinds of operators are known"


def _split_text(each: ModelKind) -> str:
    if not each.operators:
        return ""
    return "yes" if each.can_split == each.operators else str(each.can_split or "no")


def _of_model(each: ModelKind) -> str:
    match each.treatment:
        case "converted":
            return f"becomes {', '.join(each.becomes)}"
        case "computed":
            return "computed when the model is read, or not needed"
        case "repeated":
            return "none: replicated on every device"
        case "given":
            return f"given: {each.rule}"
    return each.rule
