"""What planning knows of the kinds of operators in a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from importers.facts import FileFacts
from importers.model_file import model_format
from importers.onnx_coverage import (
    KindCoverage,
    gradient_text,
    operator_coverage,
    rule_text,
)
from importers.open_sizes import reading
from ir.batch import with_batch
from ir.graph import Op, OpGraph
from ir.ops import OpView, annotation, is_known, lookup
from ir.symbols import Binding
from planner.constraints.operator_rules import annotated, check_annotations
from report.coverage import COMPUTED, GIVEN, REPEATED, RULE, ModelKind


def catalogue_dict() -> dict[str, object]:
    """The coverage of every kind, for a program."""
    found = operator_coverage()
    counts = Counter(f"{each.domain or 'planner'} {each.treatment}" for each in found)
    kinds = [asdict(each) | {"known": each.known} for each in found]
    return {"counts": dict(sorted(counts.items())), "kinds": kinds}


def model_kinds(
    path: Path,
    bind: Binding,
    batch: int | None,
    rules: Sequence[tuple[str, str]],
) -> tuple[ModelKind, ...]:
    """The coverage of the kinds in a model file, those without a rule first."""
    source = model_format(path)
    facts = source.facts(path)
    nodes = facts.kinds
    graph = annotated(reading(source, path, bind).graph, rules)
    if batch is not None:
        graph = with_batch(graph, batch)
        check_annotations(graph)
    found = [*_in_graph(graph, nodes), *_in_file_only(graph, facts)]
    return tuple(sorted(found, key=lambda k: (k.known, -max(k.nodes, k.operators), k.kind)))


def _in_graph(graph: OpGraph, nodes: Mapping[str, int]) -> Iterator[ModelKind]:
    groups: dict[str, list[Op]] = {}
    for op in graph.ops:
        groups.setdefault(op.kind, []).append(op)
    for kind, members in groups.items():
        entry, known = lookup(kind), is_known(kind)
        rules = [entry.rule(OpView(op, graph)) for op in members]
        described = RULE if known else GIVEN if annotation(members[0]) else REPEATED
        yield ModelKind(
            kind=kind,
            nodes=nodes.get(kind, 0),
            operators=len(members),
            treatment=described,
            family=entry.family if known else "",
            becomes=(),
            rule=rule_text(rules[0]) if described != REPEATED else "",
            can_split=sum(bool(rule.splittable) for rule in rules),
            gradient=gradient_text(entry),
        )


def _in_file_only(graph: OpGraph, facts: FileFacts) -> Iterator[ModelKind]:
    """Kinds that the import leaves nothing of."""
    left = {op.kind for op in graph.ops}
    known = {each.kind: each for each in operator_coverage()}
    for kind, count in facts.kinds.items():
        if kind not in left:
            yield _gone(kind, count, known.get(kind), facts.becomes.get(kind, ()))


def _gone(
    kind: str, count: int, coverage: KindCoverage | None, others: tuple[str, ...]
) -> ModelKind:
    becomes = others or (coverage.becomes if coverage is not None else ())
    return ModelKind(
        kind=kind,
        nodes=count,
        operators=0,
        treatment="converted" if becomes else COMPUTED,
        family=coverage.family if coverage is not None else "",
        becomes=becomes,
        rule="",
        can_split=0,
        gradient="",
    )
