"""The name of a plan as the field says it, such as `DP 8 x TP 8 x PP 4, ZeRO-1, SP`."""

from __future__ import annotations

from collections.abc import Iterator

from ir.degrees import Degrees
from ir.factor_roles import token_dims, token_factors
from ir.plan import Plan
from ir.plan_degrees import MainUses, Use, degrees_of, main_uses

CONVENTIONAL = 0.95
"""Share of the time of products and attention that has one set of degrees in a usual layout."""
_MOST = 0.9
"""Share of the operators that a plan computes again as blocks under full recomputation."""


def plan_name(plan: Plan) -> str:
    """The degrees of a plan and what else names it.

    A plan whose operators have different degrees is a per-operator plan, with the degrees that most
    of the time of products and attention has as the nearest conventional layout.
    """
    uses = main_uses(plan)
    named = ", ".join(
        (
            degrees_name(degrees_of(plan)),
            *(["SP"] if is_sequence_parallel(plan, uses) else []),
            *_recomputation(plan),
        )
    )
    is_conventional = followed_share(uses) >= CONVENTIONAL
    return named if is_conventional else f"per-operator plan, nearest: {named}"


def degrees_name(degrees: Degrees) -> str:
    """Degrees as engineers say them; those of one are left out.

    >>> degrees_name(Degrees(dp=8, tp=8, pp=4, vpp=2, zero=1)), degrees_name(Degrees())
    ('DP 8 x TP 8 x PP 4, VPP 2, ZeRO-1', 'one device')
    """
    factors = (
        ("DP", degrees.dp), ("CP", degrees.cp), ("TP", degrees.tp),
        ("spatial", degrees.positions), ("PP", degrees.pp), ("replicated", degrees.repeated),
    )  # fmt: skip
    product = " x ".join(f"{name} {degree}" for name, degree in factors if degree > 1)
    more = (("VPP", degrees.vpp), ("EP", degrees.ep))
    parts = [product or "one device", *(f"{name} {n}" for name, n in more if n > 1)]
    return ", ".join((*parts, *([f"ZeRO-{degrees.zero}"] if degrees.zero else [])))


def is_sequence_parallel(plan: Plan, uses: MainUses) -> bool:
    """Whether operators between products split tokens over the devices of tensor parallelism.

    Those operators would be replicated over these devices otherwise, as norms and residual sums
    are without sequence parallelism in Megatron-LM.
    """
    axes = {axis for axis, use in uses.main.items() if use is Use.TENSOR}
    split_s = repeated_s = 0.0
    products = {op.name for op, _ in uses.products}
    tokens = plan.graph.once("token dimensions", token_dims)
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True) if axes else ():
        if op.name in products or not token_factors(op, plan.graph, tokens):
            continue
        own = [use for axis, use in uses.of.of(op, planned).items() if axis in axes]
        if Use.NOTHING in own:
            repeated_s += planned.compute_s
        elif own and all(use in {Use.CONTEXT, Use.DATA} for use in own):
            split_s += planned.compute_s
    return split_s > repeated_s


def followed_share(uses: MainUses) -> float:
    """Share of the time of products and attention whose axes do what they do in most of it."""
    whole_s = sum(planned.compute_s for _, planned in uses.products)
    if whole_s <= 0:
        return 1.0
    return sum(own.compute_s for op, own in uses.products if uses.is_followed(op, own)) / whole_s


def _recomputation(plan: Plan) -> Iterator[str]:
    """What the backward pass computes again."""
    again = [span for stage in plan.pipeline.stages for span in stage.blocks]
    share = sum(end - start for start, end in again) / max(1, len(plan.operators))
    if again:
        yield "full recompute" if share >= _MOST else f"full recompute of {100 * share:.0f} %"
    elif plan.recomputed:
        yield "selective recompute"
