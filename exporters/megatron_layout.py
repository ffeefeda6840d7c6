"""The layout of Megatron-LM that is nearest to a plan.

Megatron splits every layer alike: products with weights over the innermost devices (tensor), the
sequence over the next ones (context), the batch over the rest (data). What each mesh axis does in
most of the products decides.

Source: Megatron-LM, the Parallelism Strategies Guide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.errors import ExportError
from ir.graph import Role
from ir.ops.attention import MIXERS
from ir.plan import Plan, PlannedOperator
from ir.plan_degrees import Use, UsesOfAxes
from ir.violations import Violation

__all__ = ["ORDER", "Uniform", "products_of", "uniform"]

_FIX = "export another format; Megatron needs one layout for all layers"
MOST_UNEQUAL = 0.5
"""Share of the products' time that may depart from the uniform layout."""


ORDER = (Use.DATA, Use.CONTEXT, Use.TENSOR)
"""From the outside in, as Megatron numbers its ranks."""


@dataclass(frozen=True, slots=True)
class _Product:
    """An operator that multiplies by a weight, and what every axis does in it."""

    op: PlannedOperator
    jobs: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Uniform:
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


def uniform(plan: Plan) -> Uniform:
    """The nearest uniform layout.

    Raises:
        ExportError: there is none near.
    """
    axes = tuple((name, size) for name, size, _ in plan.mesh if size > 1)
    _require_transformer(plan)
    products = tuple(products_of(plan, [name for name, _ in axes]))
    jobs = tuple(_main_job(products, i, axes[i][0]) for i in range(len(axes)))
    departing = tuple(p for p in products if p.jobs != jobs)
    whole = sum(p.op.compute_s for p in products)
    share = sum(p.op.compute_s for p in departing) / whole if whole > 0 else 0.0
    found = Uniform(axes, jobs, departing, share)
    violations = tuple(_violations(plan, found))
    if violations:
        raise ExportError(*violations)
    return found


def _require_transformer(plan: Plan) -> None:
    whole = [op for op in plan.graph.ops for op in (op, *op.parts)]
    if not plan.trains:
        raise refusal("the plan is one of inference; these are arguments of training")
    if not any(op.kind in MIXERS for op in whole):
        raise refusal("the model has no attention; Megatron trains transformers")
    if not plan.graph.batch:
        raise refusal("the batch of the model is not known")
    times = {2: 0.0, 3: 0.0}
    for planned, op in zip(plan.operators, plan.graph.ops, strict=True):
        weights = [len(plan.graph.tensors[n].dims) for n in op.inputs if _is_parameter(plan, n)]
        if max(weights, default=0) > 1:
            times[min(max(weights), 3)] += planned.compute_s
    if times[3] > times[2]:
        raise refusal("most work is done with experts or kernels, not with matrices")


def refusal(what: str, at: str = "the plan") -> ExportError:
    return ExportError(Violation(what, at, _FIX))


def products_of(plan: Plan, axes: Sequence[str]) -> Iterator[_Product]:
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
        raise refusal("no operator multiplies by a weight of two dimensions")
    job = max(times, key=times.__getitem__)
    if job not in ORDER:
        what = "repeated" if job is Use.NOTHING else f"split by {job}"
        raise refusal(f"most products are {what} along it", f"mesh axis {axis!r}")
    return job


def _violations(plan: Plan, found: Uniform) -> Iterator[Violation]:
    ranks = [ORDER.index(job) for job in found.jobs]
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
