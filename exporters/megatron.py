"""A plan as arguments of Megatron-LM, where it is close enough to what Megatron can do.

Every decision of a plan has an entry in `DECISIONS`: what the arguments say of it, and what
Megatron does otherwise.

Source: Megatron-LM, `megatron/training/arguments.py`, `megatron/core/transformer/
transformer_config.py` and `pipeline_parallel_layer_layout.py` (main, 2026-08-22).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from exporters.megatron_layout import ORDER, Uniform, products_of, uniform
from exporters.megatron_stages import recomputation, stages
from exporters.sharding import counted
from ir.graph import Role
from ir.normalise import main_dtype
from ir.ops import Engine, lookup
from ir.ops.contraction import matmul_rule
from ir.ops.indexing import gather_rule
from ir.plan import Plan, PlannedTensor
from ir.plan_degrees import Use
from ir.plan_enums import Schedule

__all__ = ["DECISIONS", "Said", "losses", "to_arguments"]

_DTYPES = {"bfloat16": "--bf16", "float16": "--fp16", "float32": ""}
_SCHEDULES = frozenset(Schedule)
"""Megatron has those of plans: it interleaves where stages have chunks."""
_OPTIMIZERS = {
    "adam": ("adam",),
    "adamw": ("adam",),
    "sgd": ("sgd", "--sgd-momentum 0"),
    "momentum": ("sgd", "--sgd-momentum 0.9"),
    "muon": ("muon",),
}
_MUON = "muon"
"""Its states are shared out by whole matrices (`dist_muon`), not by the distributed optimizer
(`megatron/core/optimizer/muon.py`)."""
_FSDP = ("--use-megatron-fsdp", "--ckpt-format fsdp_dtensor", "--use-distributed-optimizer")
_SHARDED = ("parameters", "optimizer state", "gradients and optimizer state", "parameters")
"""By the stage of ZeRO."""


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of one decision of a plan."""

    arguments: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """What Megatron does otherwise, a sentence each."""


Answer: TypeAlias = Callable[[Plan, Uniform], Said]


def to_arguments(plan: Plan) -> str:
    """Arguments, one on each line, with what they lose as comments above.

    Raises:
        ExportError: no uniform layout is near the plan.
    """
    found = uniform(plan)
    said = [answer(plan, found) for answer in DECISIONS.values()]
    lines = [
        "# Arguments for Megatron-LM: the layout of a plan. Pass them with those of your model:",
        "#   torchrun ... pretrain_gpt.py $(grep -v '^#' THIS_FILE) --num-layers ...",
        f"# {plan.devices} devices = {' x '.join(f'{found.size(j)} {j}' for j in ORDER)}",
        *(f"# lost: {_one_line(loss)}" for each in said for loss in each.lost),
        *(argument for each in said for argument in each.arguments),
    ]
    return "\n".join(lines) + "\n"


def losses(plan: Plan) -> tuple[str, ...]:
    """What Megatron does otherwise than the plan, a sentence each.

    Raises:
        ExportError: no uniform layout is near the plan.
    """
    found = uniform(plan)
    return tuple(loss for answer in DECISIONS.values() for loss in answer(plan, found).lost)


def _degrees(_: Plan, found: Uniform) -> Said:
    arguments = (f"--tensor-model-parallel-size {found.size(Use.TENSOR)}",)
    if not found.departing:
        return Said(arguments)
    names = counted([p.op.scope or p.op.name for p in found.departing], "products")
    share = f"{100 * found.departing_share:.1f} % of the products' time"
    return Said(
        arguments, (f"the plan splits {names}, {share}, otherwise; Megatron splits all alike",)
    )


def _stages(plan: Plan, _: Uniform) -> Said:
    return Said(*stages(plan))


def _schedule(plan: Plan, _: Uniform) -> Said:
    """Several stages on a device make Megatron interleave them."""
    if plan.pipeline.schedule in _SCHEDULES:
        return Said()
    return Said(lost=(f"Megatron has no schedule {plan.pipeline.schedule}; it runs 1f1b",))


def _context(plan: Plan, found: Uniform) -> Said:
    parts = found.size(Use.CONTEXT)
    if parts == 1:
        return Said()
    exchange = "p2p" if plan.request.get("ring_attention", "off") != "off" else "allgather"
    if _attends_by_heads(plan, found):
        exchange = "a2a"
    return Said((f"--context-parallel-size {parts}", f"--cp-comm-type {exchange}"))


def _attends_by_heads(plan: Plan, found: Uniform) -> bool:
    """Whether most attention splits heads over the axes that split tokens elsewhere."""
    axes = found.names(Use.CONTEXT)
    queries = [
        op.inputs[0].dims
        for op in plan.operators
        if lookup(op.kind).engine is Engine.ATTENTION and op.inputs and op.inputs[0] is not None
    ]
    by_heads = sum(len(dims) == 4 and axes <= set(dims[1]) for dims in queries)
    return 2 * by_heads > len(queries)


def _sequence(plan: Plan, found: Uniform) -> Said:
    split = found.size(Use.TENSOR) > 1 and _residual_is_split(plan, found)
    return Said(("--sequence-parallel",) if split else ())


def _residual_is_split(plan: Plan, found: Uniform) -> bool:
    """Whether the tensor axes split the sequence where no weight matrix is read.

    Judged at results whose last dimension is whole: those of products are split there.
    """
    tensor = found.names(Use.TENSOR)
    split = whole = 0
    matrices = {p.op.name for p in products_of(plan, [])}
    for op in plan.operators:
        layout = op.outputs[0] if op.outputs else None
        if op.name in matrices or layout is None or len(layout.dims) != 3:
            continue
        last, middle = set(layout.dims[2]), set(layout.dims[1])
        split += bool(tensor <= middle)
        whole += not tensor & (middle | last)
    return split > whole


def _optimizer_state(plan: Plan, found: Uniform) -> Said:
    """ZeRO: the stage that holds for most elements of the parameters."""
    data = found.names(Use.DATA)
    copies = data | found.names(Use.CONTEXT)
    main = _main_zero(plan, found)
    other = [
        t.name
        for t in plan.parameters
        if copies and (_zero(t, data) != main or (main < 3 and data & _axes(t)))
    ]
    arguments = (
        (),
        ("--use-distributed-optimizer",),
        (*_FSDP, "--data-parallel-sharding-strategy optim_grads"),
        (*_FSDP, "--data-parallel-sharding-strategy optim_grads_params"),
    )[main]
    verb = "shards" if main else "does not shard"
    names = counted(other, "parameters")
    what = f"Megatron {verb} {_SHARDED[main]} over the data axes; the plan keeps {names} otherwise"
    lost = (what,) if other else ()
    if plan.request.get("optimizer") != _MUON:
        return Said(arguments, lost)
    more = (f"with Muon Megatron shards optimizer state, not {_SHARDED[main]}",)
    return Said(lost=(*lost, *(more if main > 1 else ())))


def _main_zero(plan: Plan, found: Uniform) -> int:
    """The stage of ZeRO of most elements of the parameters."""
    data = found.names(Use.DATA)
    if not data | found.names(Use.CONTEXT):
        return 0
    elements = [0, 0, 0, 0]
    for each in plan.parameters:
        elements[_zero(each, data)] += math.prod(each.dims)
    return max(range(4), key=elements.__getitem__)


def _zero(tensor: PlannedTensor, data: frozenset[str]) -> int:
    """The stage of ZeRO of a parameter."""
    return 3 if data and data <= _axes(tensor) else min(tensor.zero, 3)


def _axes(tensor: PlannedTensor) -> frozenset[str]:
    return frozenset(a for dim in tensor.layout.dims for a in dim)


def _recomputation(plan: Plan, _: Uniform) -> Said:
    return Said(*recomputation(plan))


def _batch(plan: Plan, found: Uniform) -> Said:
    micro = plan.graph.batch // found.size(Use.DATA)
    return Said((f"--micro-batch-size {micro}", f"--global-batch-size {plan.batch}"))


def _precision(plan: Plan, _: Uniform) -> Said:
    dtype = main_dtype(plan.graph)
    if dtype not in _DTYPES:
        return Said(lost=(f"the plan computes in {dtype}; Megatron in float32",))
    return Said((_DTYPES[dtype],) if _DTYPES[dtype] else ())


def _optimizer(plan: Plan, found: Uniform) -> Said:
    name = str(plan.request.get("optimizer"))
    if name == _MUON and _main_zero(plan, found):
        return Said(("--optimizer dist_muon",))
    if name not in _OPTIMIZERS:
        return Said(lost=(f"the plan has the optimizer {name}; Megatron updates with Adam",))
    first, *more = _OPTIMIZERS[name]
    return Said((f"--optimizer {first}", *more))


def _attention(plan: Plan, _: Uniform) -> Said:
    apart = plan.request.get("fused_attention") is False
    return Said(("--attention-backend unfused",) if apart else ())


def _embeddings(plan: Plan, _: Uniform) -> Said:
    """Megatron ties the embedding to the product with the vocabulary unless it is told not to."""
    looked_up, multiplied = _vocabularies(plan)
    if looked_up and multiplied and not looked_up & multiplied:
        return Said(("--untie-embeddings-and-output-weights",))
    other = [each.tensor for each in plan.pipeline.shared if len(set(each.layouts)) > 1]
    what = f"the plan lays {counted(other, 'shared parameters')} out by stage; Megatron alike"
    return Said(lost=(what,) if other else ())


def _vocabularies(plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """What embeddings look up, and what products of the same size multiply by."""
    looked_up: dict[str, list[int]] = {}
    multiplied: dict[str, list[int]] = {}
    for op in plan.graph.ops:
        rule = lookup(op.kind).rule
        found = looked_up if rule is gather_rule else multiplied
        for name in op.inputs if rule in {gather_rule, matmul_rule} else ():
            tensor = plan.graph.tensors.get(name)
            if tensor is not None and tensor.role is Role.PARAMETER and len(tensor.dims) == 2:
                found[tensor.source or name] = sorted(tensor.dims)
    same = {name for name, dims in multiplied.items() if dims in looked_up.values()}
    return frozenset(looked_up), frozenset(same)


def _experts(plan: Plan, _: Uniform) -> Said:
    if not any(len(t.dims) > 2 for t in plan.parameters):
        return Said()
    return Said(
        lost=("weights of more than two dimensions (experts, kernels) are left to Megatron",)
    )


def _ranks(plan: Plan, _: Uniform) -> Said:
    if plan.rank_order == tuple(range(plan.devices)):
        return Said()
    return Said(
        lost=("Megatron takes ranks in the launcher's order; the plan places them otherwise",)
    )


DECISIONS: Mapping[str, Answer] = MappingProxyType(
    {
        "degrees": _degrees,
        "stages": _stages,
        "schedule": _schedule,
        "context": _context,
        "sequence parallel": _sequence,
        "optimizer state": _optimizer_state,
        "recomputation": _recomputation,
        "batch": _batch,
        "precision": _precision,
        "optimizer": _optimizer,
        "attention": _attention,
        "embeddings": _embeddings,
        "experts": _experts,
        "ranks": _ranks,
    }
)
"""What the arguments say of every decision of a plan, in the order of the file."""


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
