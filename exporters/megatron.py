"""A plan as arguments of Megatron-LM, where it is close enough to what Megatron can do.

Megatron splits every layer alike: products with weights over the innermost devices (tensor), the
sequence over the next ones (context), the batch over the rest (data). What each mesh axis does in
most of the products decides; where a product departs from that, the file says so.

Source: Megatron-LM, `megatron/training/arguments.py` and the Parallelism Strategies Guide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.errors import ExportError
from exporters.mindspore_records import Violation
from exporters.sharding import counted
from exporters.stages import cut_scopes, layer_counts
from ir.graph import Role
from ir.normalise import main_dtype
from ir.plan import Plan, PlannedOperator, PlannedTensor
from ir.plan_degrees import Use, UsesOfAxes

__all__ = ["losses", "to_arguments"]

_FIX = "export another format; Megatron needs one layout for all layers"
_MIXERS = {"Attention", "Softmax"}
"""Operators without which a model is no transformer."""
_DTYPES = {"bfloat16": "--bf16", "float16": "--fp16"}
_SCHEDULES = ("1f1b", "interleaved")
_OPTIMIZERS = {"adam": "adam", "adamw": "adam", "sgd": "sgd"}
MOST_UNEQUAL = 0.5
"""Share of the products' time that may depart from the uniform layout."""


_ORDER = (Use.DATA, Use.CONTEXT, Use.TENSOR)
"""From the outside in, as Megatron numbers its ranks."""


@dataclass(frozen=True, slots=True)
class _Product:
    """An operator that multiplies by a weight, and what every axis does in it."""

    op: PlannedOperator
    jobs: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class _Uniform:
    """The layout of Megatron that is nearest to a plan."""

    axes: tuple[tuple[str, int], ...]
    """Of more than one device, outermost first."""
    jobs: tuple[Use, ...]
    departing: tuple[_Product, ...]
    """Products that are split otherwise."""
    departing_share: float
    """Their share of the time of all products."""

    def size(self, job: Use) -> int:
        return math.prod(s for (_, s), j in zip(self.axes, self.jobs, strict=True) if j is job)

    def names(self, job: Use) -> frozenset[str]:
        pairs = zip(self.axes, self.jobs, strict=True)
        return frozenset(name for (name, _), j in pairs if j is job)


def to_arguments(plan: Plan) -> str:
    """Arguments, one on each line, with what they lose as comments above.

    Raises:
        ExportError: no uniform layout is near the plan.
    """
    found = _uniform(plan)
    lines = [
        "# Arguments for Megatron-LM: the layout of a plan. Pass them with those of your model:",
        "#   torchrun ... pretrain_gpt.py $(grep -v '^#' THIS_FILE) --num-layers ...",
        f"# {plan.devices} devices = {' x '.join(f'{found.size(j)} {j}' for j in _ORDER)}",
        *(f"# lost: {_one_line(loss)}" for loss in losses(plan)),
        *_arguments(plan, found),
    ]
    return "\n".join(lines) + "\n"


def losses(plan: Plan) -> tuple[str, ...]:
    """What Megatron does otherwise than the plan, a sentence each.

    Raises:
        ExportError: no uniform layout is near the plan.
    """
    found = _uniform(plan)
    return tuple(_losses(plan, found))


def _arguments(plan: Plan, found: _Uniform) -> Iterator[str]:
    tensor, context, data = (found.size(j) for j in (Use.TENSOR, Use.CONTEXT, Use.DATA))
    yield f"--tensor-model-parallel-size {tensor}"
    yield f"--pipeline-model-parallel-size {1 if plan.pipeline is None else plan.pipeline.parts}"
    yield from _stage_arguments(plan)
    if context > 1:
        yield f"--context-parallel-size {context}"
    if tensor > 1 and _residual_is_split(plan, found):
        yield "--sequence-parallel"
    if _shards_parameters(plan, found) > 0.5:
        yield "--use-megatron-fsdp"
        yield "--data-parallel-sharding-strategy optim_grads_params"
        yield "--ckpt-format fsdp_dtensor"
        yield "--use-distributed-optimizer"
    batch = plan.graph.batch
    yield f"--micro-batch-size {batch // data}"
    yield f"--global-batch-size {plan.batch}"
    dtype = _DTYPES.get(main_dtype(plan.graph))
    optimizer = _OPTIMIZERS.get(str(plan.request.get("optimizer")))
    yield from (text for text in (dtype, optimizer and f"--optimizer {optimizer}") if text)


def _stage_arguments(plan: Plan) -> Iterator[str]:
    """How many layers the first and the last stage have, where they have others than the rest."""
    counts = layer_counts(plan)
    if plan.pipeline is not None and plan.pipeline.chunks > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {plan.pipeline.chunks}"
    elif len(set(counts)) > 1 and len(set(counts[1:-1])) <= 1:
        yield f"--decoder-first-pipeline-num-layers {counts[0]}"
        yield f"--decoder-last-pipeline-num-layers {counts[-1]}"


def _uniform(plan: Plan) -> _Uniform:
    """The nearest uniform layout.

    Raises:
        ExportError: there is none near.
    """
    axes = tuple((name, size) for name, size, _ in plan.mesh if size > 1)
    _require_transformer(plan)
    products = tuple(_products(plan, [name for name, _ in axes]))
    jobs = tuple(_main_job(products, i, axes[i][0]) for i in range(len(axes)))
    departing = tuple(p for p in products if p.jobs != jobs)
    whole = sum(p.op.compute_s for p in products)
    share = sum(p.op.compute_s for p in departing) / whole if whole > 0 else 0.0
    found = _Uniform(axes, jobs, departing, share)
    violations = tuple(_violations(plan, found))
    if violations:
        raise ExportError(*violations)
    return found


def _require_transformer(plan: Plan) -> None:
    whole = [op for op in plan.graph.ops for op in (op, *op.parts)]
    if not plan.request.get("training"):
        raise _refusal("the plan is one of inference; these are arguments of training")
    if not any(op.kind in _MIXERS for op in whole):
        raise _refusal("the model has no attention; Megatron trains transformers")
    if not plan.graph.batch:
        raise _refusal("the batch of the model is not known")
    times = {2: 0.0, 3: 0.0}
    for planned, op in zip(plan.operators, plan.graph.ops, strict=True):
        weights = [len(plan.graph.tensors[n].dims) for n in op.inputs if _is_parameter(plan, n)]
        if max(weights, default=0) > 1:
            times[min(max(weights), 3)] += planned.compute_s
    if times[3] > times[2]:
        raise _refusal("most work is done with experts or kernels, not with matrices")


def _refusal(what: str, at: str = "the plan") -> ExportError:
    return ExportError(Violation(what, at, _FIX))


def _products(plan: Plan, axes: Sequence[str]) -> Iterator[_Product]:
    """Operators with computation that read an activation and a weight of two dimensions."""
    tensors, uses = plan.graph.tensors, UsesOfAxes(plan.graph)
    for planned, op in zip(plan.operators, plan.graph.ops, strict=True):
        weight = any(_is_matrix(plan, n) for n in op.inputs)
        if weight and any(n and tensors[n].role is not Role.PARAMETER for n in op.inputs):
            found = uses.of(op, planned)
            yield _Product(planned, tuple(found.get(axis, Use.NOTHING) for axis in axes))


def _is_parameter(plan: Plan, name: str) -> bool:
    return bool(name) and plan.graph.tensors[name].role is Role.PARAMETER


def _is_matrix(plan: Plan, name: str) -> bool:
    return _is_parameter(plan, name) and len(plan.graph.tensors[name].dims) == 2


def _main_job(products: Sequence[_Product], index: int, axis: str) -> Use:
    """What an axis does for most of the products' time."""
    times: dict[Use, float] = {}
    for product in products:
        job = product.jobs[index]
        times[job] = times.get(job, 0.0) + product.op.compute_s
    if not times:
        raise _refusal("no operator multiplies by a weight of two dimensions")
    job = max(times, key=times.__getitem__)
    if job is Use.NOTHING:
        raise _refusal("most products are repeated along it", f"mesh axis {axis!r}")
    return job


def _violations(plan: Plan, found: _Uniform) -> Iterator[Violation]:
    ranks = [_ORDER.index(job) for job in found.jobs]
    if ranks != sorted(ranks):
        seen = ", ".join(f"{n} {j}" for (n, _), j in zip(found.axes, found.jobs, strict=True))
        what = f"Megatron nests data, context, tensor from the outside in, the plan has {seen}"
        yield Violation(what, "the mesh", _FIX)
    if found.departing_share > MOST_UNEQUAL:
        what = (
            f"{100 * found.departing_share:.0f} % of the products' time is split otherwise than "
            "the rest: no uniform layout is near"
        )
        yield Violation(what, "the operators", _FIX)
    if plan.graph.batch % found.size(Use.DATA):
        what = f"a batch of {plan.graph.batch} does not go into {found.size(Use.DATA)} parts"
        yield Violation(what, "the batch", _FIX)


def _residual_is_split(plan: Plan, found: _Uniform) -> bool:
    """Whether the tensor axes split the sequence where no weight matrix is read.

    Judged at results whose last dimension is whole: those of products are split there.
    """
    tensor = found.names(Use.TENSOR)
    split = whole = 0
    matrices = {p.op.name for p in _products(plan, [])}
    for op in plan.operators:
        layout = op.outputs[0] if op.outputs else None
        if op.name in matrices or layout is None or len(layout.dims) != 3:
            continue
        last, middle = set(layout.dims[2]), set(layout.dims[1])
        split += bool(tensor <= middle)
        whole += not tensor & (middle | last)
    return split > whole


def _shards_parameters(plan: Plan, found: _Uniform) -> float:
    """Share of the parameters' elements that the data axes split at rest."""
    data = found.names(Use.DATA)
    whole = sum(math.prod(t.dims) for t in plan.parameters)
    split = sum(math.prod(t.dims) for t in plan.parameters if data and data <= _axes(t))
    return split / whole if whole else 0.0


def _axes(tensor: PlannedTensor) -> frozenset[str]:
    return frozenset(a for dim in tensor.layout.dims for a in dim)


def _losses(plan: Plan, found: _Uniform) -> Iterator[str]:
    if found.departing:
        names = counted([p.op.scope or p.op.name for p in found.departing], "products")
        yield (
            f"the plan splits {names}, {100 * found.departing_share:.1f} % of the products' time, "
            "otherwise; Megatron splits all alike"
        )
    share, data = _shards_parameters(plan, found), found.names(Use.DATA)
    if share > 0.5:
        other = [t.name for t in plan.parameters if not data <= _axes(t)]
    else:
        other = [t.name for t in plan.parameters if data & _axes(t)]
    if other and data:
        kept = "shards" if share > 0.5 else "does not shard"
        names = counted(other, "parameters")
        yield f"Megatron {kept} parameters over the data axes; the plan keeps {names} otherwise"
    if plan.recomputed:
        names = counted(plan.recomputed, "tensors")
        yield f"the backward pass computes {names} again: choose --recompute-granularity yourself"
    if any(len(t.dims) > 2 for t in plan.parameters):
        yield "weights of more than two dimensions (experts, kernels) are left to Megatron"
    yield from _stage_losses(plan)
    if plan.rank_order != tuple(range(plan.devices)):
        yield "Megatron takes ranks in the launcher's order; the plan places them otherwise"


def _stage_losses(plan: Plan) -> Iterator[str]:
    pipeline = plan.pipeline
    if pipeline is None:
        return
    if pipeline.schedule not in _SCHEDULES:
        yield f"Megatron has no schedule {pipeline.schedule}; it runs 1f1b"
    counts = layer_counts(plan)
    several = len(set(counts)) > 1
    if several and (pipeline.chunks > 1 or len(set(counts[1:-1])) > 1):
        given = ", ".join(map(str, counts))
        yield f"the stages hold {given} layers; Megatron takes another number at the ends alone"
    inside = cut_scopes(plan)
    if inside:
        yield f"the plan cuts inside {counted(inside, 'layers')}; Megatron cuts between layers"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
