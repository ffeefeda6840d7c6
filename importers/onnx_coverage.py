"""What planning knows of every kind that ONNX has, and of those that exporters add.

Nothing is told twice: a node of each kind (`importers.onnx_samples`) is imported, and what comes
out is looked up in the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import onnx

from importers.errors import ModelError
from importers.onnx import import_model
from importers.onnx_attributes import converted_kinds
from importers.onnx_foreign import MICROSOFT
from importers.onnx_node import ADOPTED
from importers.onnx_samples import foreign_sample, sample
from ir.graph import OpGraph
from ir.notation import notation, remarks
from ir.ops import OperatorEntry, OpView, catalogue, is_known, lookup
from ir.rule import ShardingRule


class Treatment(StrEnum):
    """What planning makes of a kind."""

    RULE = "rule"
    """The catalogue says what may be split."""
    CONVERTED = "converted"
    """It becomes operators of other kinds when the model is read."""
    REPEATED = "repeated"
    """Every device does the same work, unless a rule is given; priced by the bytes it moves."""
    REFUSED = "refused"
    """Its results are no tensors of known size."""


@dataclass(frozen=True, slots=True)
class KindCoverage:
    """One kind."""

    kind: str
    """As the graph names it: that of a foreign operator has its domain, `com.microsoft::MoE`."""
    domain: str
    """`ai.onnx`, `com.microsoft`, or empty for what only import and normal form make."""
    since: int | None
    """The first version of the domain's operators that has it."""
    until: int | None
    """The version that gave it up."""
    treatment: Treatment
    family: str
    """The file of `ir/ops`; of a converted kind those of what it becomes."""
    becomes: tuple[str, ...]
    """Kinds that it is converted to."""
    rule: str
    """Notation of a typical operator; empty where there is none to show."""
    remarks: tuple[str, ...]
    """What the notation cannot say."""
    meaning: str
    """The rule in words; of what is refused the reason."""
    splits: bool | None
    """Whether the typical operator can be split; None where there is none."""
    gradient: str
    """Operands that can have a gradient: their numbers, `all`, `none`, or empty."""

    @property
    def known(self) -> bool:
        return self.treatment in {Treatment.RULE, Treatment.CONVERTED}


CONTRIBUTED = (
    "BiasAdd", "BiasDropout", "BiasSplitGelu", "BitmaskDropout", "GatedRelativePositionBias",
    "GatherBlockQuantized", "Inverse", "NhwcConv", "PackedAttention", "PagedAttention",
    "QAttention", "RelativePositionBias", "SparseAttention", "Trilu",
)  # fmt: skip
"""Operators of ONNX Runtime that exporters and its optimizer write into models of networks, and
that planning does not know.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

_UNKNOWN_SIZE = "cannot be known before the model runs"
_NO_SIZE = "how large its result is follows from the data"
_NO_TENSOR = "sequences and optional values are no tensors"
_NOTES: Mapping[str, str] = MappingProxyType(
    {"If": "A constant condition leaves the branch that is taken."}
)


def operator_coverage() -> tuple[KindCoverage, ...]:
    """Every kind of ONNX, of ONNX Runtime that is met, and of the catalogue, in this order."""
    found = [*_standard(), *_foreign()]
    told = {each.kind for each in found} | {kind for each in found for kind in _adopted(each)}
    own = (_own(kind, entry) for kind, entry in sorted(catalogue().items()) if kind not in told)
    return (*found, *own)


def by_family(found: Iterable[KindCoverage]) -> dict[str, list[KindCoverage]]:
    """Kinds with a rule by the file of `ir/ops` that has it."""
    families: dict[str, list[KindCoverage]] = {}
    for each in found:
        if each.treatment is Treatment.RULE:
            families.setdefault(each.family, []).append(each)
    return {name: sorted(families[name], key=lambda k: k.kind) for name in sorted(families)}


def _adopted(coverage: KindCoverage) -> tuple[str, ...]:
    """A foreign kind that is the catalogue's own under its short name."""
    short = coverage.kind.rpartition("::")[2]
    return (short,) if coverage.domain == MICROSOFT and coverage.known else ()


def gradient_text(entry: OperatorEntry) -> str:
    """The operands that can have a gradient."""
    if entry.differentiable is None:
        return "all"
    return ", ".join(map(str, entry.differentiable)) or "none"


def rule_text(rule: ShardingRule) -> str:
    """The notation of a rule, and behind it what it cannot say."""
    return "; ".join((notation(rule), *remarks(rule)))


def meaning_of(entry: OperatorEntry) -> str:
    """The first paragraph of what the rule's function says of itself, on one line."""
    return " ".join((entry.rule.__doc__ or "").partition("\n\n")[0].split())


def _standard() -> Iterator[KindCoverage]:
    """Kinds of ONNX by name."""
    history: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, []).append(schema)
    newest = onnx.defs.onnx_opset_version()
    for kind, schemas in sorted(history.items()):
        schemas.sort(key=lambda s: s.since_version)
        last = [s for s in schemas if not s.deprecated][-1]
        until = schemas[-1].since_version if schemas[-1].deprecated else None
        model = sample(last, last.since_version if until else newest)
        graph, error = _imported(model, kind)
        yield _covered(
            kind, "ai.onnx", (schemas[0].since_version, until), graph, _no_tensors(last) or error
        )


def _foreign() -> Iterator[KindCoverage]:
    """Kinds of ONNX Runtime that exporters write, by name."""
    kinds = {*CONTRIBUTED, *ADOPTED[MICROSOFT], *converted_kinds(MICROSOFT)}
    for short in sorted(kinds):
        graph, error = _imported(foreign_sample(short), short)
        yield _covered(f"{MICROSOFT}::{short}", MICROSOFT, (1, None), graph, error)


def _imported(model: onnx.ModelProto | None, kind: str) -> tuple[OpGraph | None, str]:
    """The graph of a sample, or why there is none."""
    if model is None:
        return None, ""
    try:
        return import_model(model, kind), ""
    except ModelError as error:
        return None, _NO_SIZE if _UNKNOWN_SIZE in str(error) else str(error)


def _no_tensors(schema: onnx.defs.OpSchema) -> str:
    """Why a kind cannot be read that takes or makes something else than tensors."""
    tensors = [
        any(each.startswith("tensor(") for each in formal.types)
        for formal in (*schema.inputs, *schema.outputs)
    ]
    return "" if all(tensors) else _NO_TENSOR


def _covered(
    kind: str,
    domain: str,
    versions: tuple[int, int | None],
    graph: OpGraph | None,
    error: str,
) -> KindCoverage:
    """What comes out of the sample of a kind, if there is one, in the terms of the catalogue."""
    short = kind.rpartition("::")[2]
    names = tuple(dict.fromkeys(op.kind for op in graph.ops)) if graph else ()
    becomes = names if names not in {(kind,), (short,)} else ()
    treatment = _treatment(kind, domain, names, error)
    entries = [lookup(name) for name in names or (kind,) if is_known(name)]
    families = sorted({entry.family for entry in entries})
    shown = graph is not None and treatment is not Treatment.REPEATED
    rules: list[ShardingRule] = []
    if graph is not None and shown:
        rules = [lookup(op.kind).rule(OpView(op, graph)) for op in graph.ops]
    single = rules[0] if len(rules) == 1 else None
    words = meaning_of(entries[0]) if entries and not becomes else _NOTES.get(kind, "")
    return KindCoverage(
        kind=kind,
        domain=domain,
        since=versions[0],
        until=versions[1],
        treatment=treatment,
        family=", ".join(families),
        becomes=becomes,
        rule=notation(single) if single else "",
        remarks=tuple(remarks(single)) if single else (),
        meaning=words if treatment is not Treatment.REFUSED else error,
        splits=any(rule.splittable for rule in rules) if rules else None,
        gradient=gradient_text(entries[0]) if entries and not becomes else "",
    )


def _treatment(kind: str, domain: str, names: tuple[str, ...], error: str) -> Treatment:
    """By what the sample became; without one by the tables."""
    short = kind.rpartition("::")[2]
    if names and all(is_known(name) for name in names):
        return Treatment.RULE if names in {(kind,), (short,)} else Treatment.CONVERTED
    if not names and is_known(kind):
        return Treatment.RULE
    if not names and short in converted_kinds("" if domain == "ai.onnx" else domain):
        return Treatment.CONVERTED
    if error in {_NO_TENSOR, _NO_SIZE}:
        return Treatment.REFUSED
    return Treatment.REPEATED


def _own(kind: str, entry: OperatorEntry) -> KindCoverage:
    """A kind of the catalogue that no model file has."""
    return KindCoverage(
        kind=kind,
        domain="",
        since=None,
        until=None,
        treatment=Treatment.RULE,
        family=entry.family,
        becomes=(),
        rule="",
        remarks=(),
        meaning=meaning_of(entry),
        splits=None,
        gradient=gradient_text(entry),
    )
