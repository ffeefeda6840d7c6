"""The two estimators on one conventional layout: what differs today stands here by name.

Both should say the same; until they do, no difference may come, go or change unseen. One that is
closed goes from `APART` to `EQUAL`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

from benchmarks.two_estimators import (
    BYTES,
    FLOPS,
    KERNELS,
    SECONDS,
    Compared,
    compared,
    lines,
)

EQUAL = {
    *((name, FLOPS) for name in ("queries, keys and values", "attention output", "up", "down")),
    *((name, KERNELS) for name in ("attention output", "down", "head")),
    ("head", FLOPS),
}
"""Quantities on which both agree to rounding."""

NORMS = {("weights", BYTES), ("gradients held", BYTES), ("optimizer state", BYTES)}
"""Sizes split the parameters of normalisations over tensor parallel ranks; the plan too, but for
its one behind the last layer, which they do not count."""

APART: dict[tuple[str, str], tuple[float, str]] = {
    ("queries, keys and values", KERNELS): (3.0, "sizes have one product, the plan three"),
    ("queries, keys and values", SECONDS): (1.3214, "three narrow products, and rates of chips"),
    ("attention output", SECONDS): (0.9305, "rates: fitted to steps, and measured alone"),
    ("up", KERNELS): (2.0, "sizes have gate and up in one product"),
    ("up", SECONDS): (0.9774, "rates"),
    ("down", SECONDS): (0.9609, "rates"),
    ("head", SECONDS): (0.9683, "rates"),
    ("attention core", SECONDS): (1.6331, "the plan has the kernel of the chip, sizes a fit"),
    ("element-wise", SECONDS): (0.3037, "the plan splits tokens or width over all ranks and fuses"),
    ("embedding", SECONDS): (0.0937, "the plan gathers rows once and splits their width"),
    ("loss", SECONDS): (0.1891, "bytes of a logit: fitted, and counted"),
    ("host", SECONDS): (0.0, "plans have no host"),
    ("tensor parallel", SECONDS): (0.9836, "a start for each doubling, and curves of NCCL"),
    ("tensor parallel", BYTES): (1.0083, "the plan has the ends and norms too"),
    ("gradients", SECONDS): (0.7584, "two bytes and three of a gradient; links"),
    ("gradients", BYTES): (0.6667, "two bytes and three of a gradient"),
    ("update", SECONDS): (0.7721, "28 and 34 bytes of a parameter, and bandwidth"),
    ("step", SECONDS): (0.8400, "all of these"),
    ("activations", BYTES): (1.2813, "fitted share of tensors, and their liveness"),
    ("runtime", BYTES): (0.0, "the plan leaves it to the reserve of the machine"),
    ("peak", BYTES): (1.1467, "all of these"),
}
"""The plan's figure over that by sizes, as it is today, and why."""

WHOLE = "step", "peak"


@cache
def found() -> tuple[Compared, ...]:
    return tuple(compared("llama3-8b", "tp=8,dp=2"))


def test_every_difference_has_a_name() -> None:
    """None comes, goes or changes unseen."""
    table = "\n".join(lines(found()))
    print(table)  # noqa: T201  what pytest -s shows
    assert {(each.name, each.unit) for each in found()} == EQUAL | NORMS | set(APART), table
    for each in found():
        known = (each.name, each.unit)
        if known in APART:
            assert each.ratio == pytest.approx(APART[known][0], abs=6e-5), table
        else:
            rounding = 1e-5 if known in NORMS else 1e-12
            assert each.ratio == pytest.approx(1.0, rel=rounding), table


def test_the_parts_are_the_whole() -> None:
    """No second and no byte of either estimate is in no row."""
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each in found():
        if each.name not in WHOLE:
            sums["sizes", each.unit] += each.by_sizes
            sums["plan", each.unit] += each.by_plan
    moved = [each for each in found() if each.name in {"tensor parallel", "gradients"}]
    for each in moved:
        if each.unit == BYTES:  # not held
            sums["sizes", BYTES] -= each.by_sizes
            sums["plan", BYTES] -= each.by_plan
    for each in found():
        if each.name in WHOLE:
            assert sums["sizes", each.unit] == pytest.approx(each.by_sizes, rel=1e-9)
            assert sums["plan", each.unit] == pytest.approx(each.by_plan, rel=1e-9)
