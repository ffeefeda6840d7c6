"""Every decision of a plan is an argument of Megatron-LM, is named as lost, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from exporters.errors import ExportError
from exporters.formats import FORMATS
from exporters.megatron import DECISIONS, losses, to_arguments
from exporters.stages import layer_counts
from importers.foreign_plans import ForeignPlan, read_foreign
from ir.graph import Op, OpGraph, Role, Tensor
from ir.plan import (
    NamedLayout,
    Pipeline,
    PipelineStage,
    Plan,
    PlannedOperator,
    PlannedTensor,
    SharedParameter,
)
from planner.pipeline.space import Configuration
from planner.request import SearchRequest
from tests.builders import GraphBuilder
from tests.executors.drawn_stages import drawn_stages
from tests.exporters.test_megatron import arguments, laid_out

pytestmark = pytest.mark.fast

REFUSED, HOLDS, TOLD = "refused", "holds the search", "no decision"
OWN: dict[type, dict[str, str]] = {
    Plan: {
        "mesh": "degrees", "rank_order": "ranks", "operators": "degrees", "tensors": "degrees",
        "recomputed": "recomputation", "pipeline": "stages",
    },
    PlannedOperator: {
        "split": "degrees", "inputs": "degrees", "outputs": "sequence parallel", "stage": "stages",
    },
    PlannedTensor: {
        "layout": "optimizer state", "used": "degrees", "gradient": "optimizer state",
        "zero": "optimizer state", "states": "optimizer state", "stage": "stages",
        "host_bytes": REFUSED,
    },
    Pipeline: {
        "schedule": "schedule", "micro_batches": "batch", "micro_batch": "batch",
        "stages": "stages", "chunks": "stages", "shared": "embeddings",
    },
    PipelineStage: {
        "start": "stages", "end": "stages", "blocks": "recomputation", "mesh": REFUSED,
    },
    SharedParameter: {"tensor": "embeddings", "stages": "stages", "layouts": "embeddings"},
    SearchRequest: {
        "optimizer": "optimizer", "dtype": "precision", "batch": "batch", "global_batch": "batch",
        "micro_batch": "batch", "pipeline": "stages", "interleave": "schedule",
        "recompute": "recomputation", "zero": "optimizer state", "offload": REFUSED,
        "sequence_parallel": "sequence parallel", "context_parallel": "context",
        "ring_attention": "context", "stage_meshes": REFUSED, "fused_attention": "attention",
        "training": REFUSED,
    },
}  # fmt: skip
"""By record and field, which entry answers for what the field decides."""
OTHERS: dict[type, str] = {
    Plan: "graph digest cluster request collectives estimate space bound baselines notes objective "
          "memory_bytes whole_batch_bytes",
    PlannedOperator: "name kind label scope compute_s backward_s recompute_s waits_s",
    PlannedTensor: "name role dims dtype update_s recompute_s host_s",
    Pipeline: "sends",
    PipelineStage: "forward_s backward_s once_s peak_memory_bytes in_flight sync_s update_s",
    SharedParameter: "nbytes time_s tier updates_s",
    SearchRequest: "fully_use_devices memory_limit_bytes dataset_strategy target solver effort "
                   "time_limit_s all_to_all cut_positions seed threads bind rules cost pins "
                   "stage_starts degrees scoped_degrees rests soft_pins close_to close_mesh "
                   "close_parts max_changes rest overlap profile calibration",
}  # fmt: skip
"""What tells of a plan, or holds the search to what the plan shows."""


@pytest.mark.parametrize("record", OWN, ids=lambda record: record.__name__)
def test_every_field_is_answered_for(record: Any) -> None:
    assert {f.name for f in fields(record)} == OWN[record].keys() | set(OTHERS[record].split())
    assert set(OWN[record].values()) <= DECISIONS.keys() | {REFUSED}


def transformer(layers: int) -> OpGraph:
    build = GraphBuilder("transformer")
    dims = (8, 4, 16)
    x = build.input("x", dims)
    for layer in range(layers):
        y = build.op("MatMul", (x, build.weight(f"in.{layer}", (16, 16))), dims)
        y = build.op("Softmax", (y,), dims, axis=2)
        y = build.op("MatMul", (y, build.weight(f"out.{layer}", (16, 16))), dims)
        x = build.op("Add", (x, y), dims)
    graph = build.build(x)
    ops = (replace(op, scope=f"net.layers.{i // 4}") for i, op in enumerate(graph.ops))
    return replace(graph, ops=tuple(ops))


def staged(counts: tuple[int, ...], chunks: int = 1) -> Plan:
    """Whole layers in stages of one server of cards, every device with a part of the batch."""
    stages = len(counts) // chunks
    plan = drawn_stages(
        transformer(sum(counts)), 2 * stages, Configuration(stages, 4, 8, chunks),
        "generic", 0, zero="0",
    )  # fmt: skip
    data, weight = NamedLayout((("card",), (), ())), NamedLayout(((), ()))
    plan = laid_out(plan, {t.name: (weight, weight) for t in plan.parameters}, data)
    ends = [4 * sum(counts[: i + 1]) for i in range(len(counts))]
    pipeline = plan.pipeline
    own = tuple(
        replace(stage, start=end - 4 * count, end=end, blocks=())
        for stage, end, count in zip(pipeline.stages, ends, counts, strict=True)
    )
    number = [stage for stage, count in enumerate(counts) for _ in range(4 * count)]
    operators = tuple(
        replace(op, stage=stage) for op, stage in zip(plan.operators, number, strict=False)
    )
    tensors = tuple(replace(t, zero=0, states=None) for t in plan.tensors)
    return replace(
        plan, operators=(*operators, *plan.operators[len(operators) :]), tensors=tensors,
        pipeline=replace(pipeline, stages=own), recomputed=(),
        rank_order=tuple(range(plan.devices)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> Plan:
    return staged((2, 2))


def tensors(plan: Plan, **change: Any) -> Plan:
    return replace(plan, tensors=tuple(replace(t, **change) for t in plan.tensors))


def pipeline(plan: Plan, **change: Any) -> Plan:
    return replace(plan, pipeline=replace(plan.pipeline, **change))


def blocks(plan: Plan, *layers: int) -> Plan:
    """The plan with these layers computed again."""
    own = {layer: (4 * layer, 4 * layer + 4) for layer in layers}
    stages = tuple(
        replace(s, blocks=tuple(b for b in own.values() if s.start <= b[0] < s.end))
        for s in plan.pipeline.stages
    )
    return pipeline(plan, stages=stages)


def requested(plan: Plan, **change: object) -> Plan:
    return replace(plan, request={**plan.request, **change})


def by(plan: Plan, weight: NamedLayout, data: NamedLayout) -> Plan:
    return laid_out(plan, {t.name: (weight, weight) for t in plan.parameters}, data)


def of_dtype(plan: Plan, dtype: str) -> Plan:
    found = {n: replace(t, dtype=dtype) for n, t in plan.graph.tensors.items()}
    return replace(plan, graph=replace(plan.graph, tensors=found))


def with_embedding(plan: Plan) -> Plan:
    """The plan whose model looks up a table of the size of what it multiplies by."""
    weight = next(t for t in plan.graph.tensors.values() if t.role is Role.PARAMETER)
    table = replace(weight, name="table", source="")
    ids = Tensor("ids", (2,), "int64", Role.INPUT)
    rows = Tensor("rows", (2, table.dims[1]), table.dtype, Role.ACTIVATION)
    op = Op("embedding", "Gather", ("table", "ids"), ("rows",))
    graph = replace(
        plan.graph,
        ops=(*plan.graph.ops, op),
        tensors={**plan.graph.tensors, **{t.name: t for t in (table, ids, rows)}},
    )
    *_, last = plan.operators
    split = tuple((axis, -1) for axis, _ in last.split)
    looked_up = replace(last, name="embedding", kind="Gather", split=split, compute_s=0.0)
    return replace(plan, graph=graph, operators=(*plan.operators, looked_up))


TOKENS = NamedLayout(((), ("card",), ()))
ROWS = NamedLayout((("card",), ()))
WHOLE = NamedLayout(((), ()))
FSDP = "--use-megatron-fsdp"
Change = Callable[[Plan], Plan]
CASES: list[tuple[str, Change, str]] = [
    ("degrees", lambda p: by(p, ROWS, NamedLayout(((), (), ("card",)))),
     "--tensor-model-parallel-size 2"),
    ("stages", lambda _: staged((3, 1)), "--decoder-first-pipeline-num-layers 3"),
    ("stages", lambda _: staged((1, 1, 1, 1), 2), "--num-virtual-stages-per-pipeline-rank 2"),
    ("stages", lambda _: staged((1, 2, 1, 1), 2), "--pipeline-model-parallel-layout Et|tt|t|tL"),
    ("schedule", lambda p: pipeline(p, schedule="seqpipe"), "no schedule seqpipe"),
    ("context", lambda p: by(p, WHOLE, TOKENS), "--cp-comm-type allgather"),
    ("context", lambda p: requested(by(p, WHOLE, TOKENS), ring_attention="auto"),
     "--cp-comm-type p2p"),
    ("sequence parallel", lambda p: by(p, ROWS, TOKENS), "--sequence-parallel"),
    ("optimizer state", lambda p: tensors(p, zero=1), "--use-distributed-optimizer"),
    ("optimizer state", lambda p: tensors(p, zero=2),
     "--data-parallel-sharding-strategy optim_grads"),
    ("optimizer state", lambda p: tensors(p, layout=ROWS, zero=3),
     "--data-parallel-sharding-strategy optim_grads_params"),
    ("recomputation", lambda p: blocks(p, 0, 1, 2, 3), "--recompute-method uniform"),
    ("recomputation", lambda p: blocks(p, 0, 2), "--recompute-num-layers 1"),
    ("recomputation", lambda p: blocks(p, 0, 1, 2), "keeps 1 layer (net.layers.3)"),
    ("recomputation", lambda p: replace(p, recomputed=("Softmax_1:0",)), "1 tensor (Softmax_1:0)"),
    ("batch", lambda p: pipeline(p, micro_batches=16), "--global-batch-size 64"),
    ("precision", lambda p: of_dtype(p, "float16"), "--fp16"),
    ("precision", lambda p: of_dtype(p, "float64"), "computes in float64"),
    ("optimizer", lambda p: requested(p, optimizer="sgd"), "--sgd-momentum 0"),
    ("optimizer", lambda p: requested(p, optimizer="momentum"), "--sgd-momentum 0.9"),
    ("optimizer", lambda p: requested(p, optimizer="muon"), "--optimizer muon"),
    ("optimizer", lambda p: requested(tensors(p, zero=1), optimizer="muon"),
     "--optimizer dist_muon"),
    ("optimizer state", lambda p: requested(tensors(p, zero=2), optimizer="muon"),
     "with Muon Megatron shards optimizer state, not gradients"),
    ("optimizer", lambda p: requested(p, optimizer="lamb"), "the optimizer lamb"),
    ("optimizer", lambda p: requested(p, optimizer="none"), "the optimizer none"),
    ("attention", lambda p: requested(p, fused_attention=False), "--attention-backend unfused"),
    ("embeddings", with_embedding, "--untie-embeddings-and-output-weights"),
    ("experts", lambda p: tensors(p, dims=(2, 4, 8)), "weights of more than two dimensions"),
    ("ranks", lambda p: replace(p, rank_order=p.rank_order[::-1]), "the launcher's order"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "said"), CASES)
def test_a_decision_is_an_argument_or_named_as_lost(
    name: str, change: Change, said: str, plan: Plan
) -> None:
    changed = change(plan)
    given, lost = arguments(changed), losses(changed)
    assert said not in "\n".join((*arguments(plan), *losses(plan)))
    assert said in given or any(said in loss for loss in lost)
    found = DECISIONS[name]
    assert any(said in text for text in _said(found, changed))


def _said(answer: Any, plan: Plan) -> tuple[str, ...]:
    from exporters.megatron_layout import uniform  # noqa: PLC0415

    said = answer(plan, uniform(plan))
    return (*said.arguments, *said.lost)


def test_every_decision_has_a_case(plan: Plan) -> None:
    assert {name for name, _, _ in CASES} == DECISIONS.keys()
    assert losses(plan) == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda p: tensors(p, host_bytes=1.0),
        lambda p: requested(p, training=False),
        lambda p: pipeline(p, stages=tuple(
            replace(s, mesh=(("card", 4, 0),)) for s in p.pipeline.stages
        )),
    ],
)  # fmt: skip
def test_what_megatron_cannot_do_is_refused(change: Change, plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ExportError):
        FORMATS["megatron"].writer(change(plan), None)(tmp_path / "x")


@pytest.mark.parametrize(
    ("counts", "chunks"),
    [((2, 2), 1), ((3, 1), 1), ((1, 2, 1), 1), ((2, 1, 1, 2), 1), ((1, 2, 1, 1), 2)],
)
def test_stages_are_read_back(counts: tuple[int, ...], chunks: int) -> None:
    plan = staged(counts, chunks)
    assert tuple(layer_counts(plan)) == counts
    found = read_foreign(to_arguments(plan), "f")
    assert isinstance(found, ForeignPlan)
    ends = (counts[0], counts[-1]) if found.ends else ()
    assert (found.ends, found.chunks) == (ends, chunks)
    assert found.division in {counts, ()}
    assert found.division or found.ends or len(set(counts)) == 1


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_zero_and_recomputation_are_read_back(zero: int, plan: Plan) -> None:
    changed = tensors(
        blocks(plan, 0, 1, 2, 3), zero=zero, **({"layout": ROWS} if zero == 3 else {})
    )
    found = read_foreign(to_arguments(changed), "f")
    assert isinstance(found, ForeignPlan)
    assert (dict(found.degrees).get("zero3", 0), found.zero) == (zero == 3, zero % 3)
    assert found.recompute == "full"
