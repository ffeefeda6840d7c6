"""Law 8: a conventional layout priced by its sizes, and the plan pinned to it.

With the profile `generic` both have the same products, messages, states and seconds, or the
difference is named here and in docs/step.md. None comes or goes unseen: one that is closed leaves
`NAMED`.
"""

from __future__ import annotations

import math
import re
from functools import cache

import pytest

from benchmarks.two_estimators import PAIRS, Compared, compared, lines
from benchmarks.two_estimators_words import BYTES, SECONDS

ROUNDING = 1e-9
ALWAYS = ""

NAMED: tuple[tuple[str, tuple[tuple[str, str], ...], str], ...] = (
    (
        "kernels: sizes count bytes by hand, plans start every kernel of the graph",
        (("element-wise", SECONDS), ("embedding", SECONDS), ("loss", SECONDS)),
        ALWAYS,
    ),
    (
        "vectors: sizes count those of two norms of a layer with its matrices",
        (("vectors sent", BYTES), ("vectors sent", SECONDS), ("vectors updated", SECONDS)),
        ALWAYS,
    ),
    (
        "ends: sizes know no messages of embedding, head, loss and the ends of stages",
        (("messages of the ends", BYTES), ("messages of the ends", SECONDS)),
        ALWAYS,
    ),
    (
        "activations: sizes count tensors by hand, plans follow what is alive",
        (("activations", BYTES), ("peak", BYTES)),
        ALWAYS,
    ),
    ("all of these", (("step", SECONDS),), ALWAYS),
    (
        "context: a plan may cut the vocabulary over the ranks of a context",
        (
            ("parameters sent", SECONDS), ("parameters sent, ends", BYTES),
        ),
        r"\bcp=",
    ),
    ("context, held whole", (("weights", BYTES),), r"\bcp=(?!.*zero=3)"),
    ("context, held whole", (("gradients held", BYTES),), r"\bcp=(?!.*zero=[23])"),
    (
        "context, held whole", (("optimizer state", BYTES), ("update", SECONDS)),
        r"\bcp=(?!.*zero=)",
    ),
    (
        "router: DeepSeek's graph chooses experts in 32 bits, which no size says",
        (("router", SECONDS),), r"^latent ",
    ),
    (
        "sends: plans take the outermost links between all stages, sizes those of each",
        (("sends", SECONDS),),
        r"\bpp=4,dp=4",
    ),
)  # fmt: skip
"""What differs, in which quantities, and of which models and layouts."""


@cache
def found(model: str, layout: str) -> tuple[Compared, ...]:
    return tuple(compared(model, layout))


def test_there_are_sixty_pairs_of_all_kinds() -> None:
    """Every degree, every stage of ZeRO and recomputation is in some pair."""
    assert len(PAIRS) >= 60
    kinds = ("tp=", "cp=", "ep=", "pp=", "vpp=", "zero=1", "zero=2", "zero=3", "sp", "recompute=")
    for kind in kinds:
        assert any(re.search(rf"\b{kind}", layout) for _, layout in PAIRS), kind


@pytest.mark.parametrize(
    ("model", "layout"),
    [pytest.param(*pair, marks=[pytest.mark.fast] * (n % 2)) for n, pair in enumerate(PAIRS)],
)
def test_every_difference_has_a_name(model: str, layout: str) -> None:
    """Both have the same products, messages, states and seconds, but for what is named."""
    rows = found(model, layout)
    table = "\n".join((f"{model} {layout}", *lines(rows)))
    named = {
        quantity
        for _, quantities, where in NAMED
        if re.search(where, f"{model} {layout}")
        for quantity in quantities
    }
    differ = {
        (each.name, each.unit)
        for each in rows
        if not math.isclose(each.by_sizes, each.by_plan, rel_tol=ROUNDING)
    }
    assert differ - named == set(), table
    closed = named & {(each.name, each.unit) for each in rows} - differ
    assert closed == set(), table


def test_every_name_is_needed() -> None:
    """Some pair differs in every quantity that is named."""
    some = [pair for pair in PAIRS if re.search("tp=8|cp=|pp=4|zero=3", pair[1])]
    rows = {(each.name, each.unit) for pair in some for each in found(*pair)}
    assert {quantity for _, quantities, _ in NAMED for quantity in quantities} <= rows


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        pair
        for pair in PAIRS
        if pair[1] in {"dp=8,batch=8", "dp=16,batch=32,zero=3", "tp=8,dp=2,batch=16,micro=8,sp"}
    ],
)
def test_the_parts_are_the_whole(model: str, layout: str) -> None:
    """No second of either estimate is in no row."""
    rows = found(model, layout)
    steps = next(each for each in rows if each.name == "step")
    parts = [each for each in rows if each.unit == SECONDS and each.name != "step"]
    assert sum(each.by_plan for each in parts) == pytest.approx(steps.by_plan, rel=ROUNDING)
    own = {each.name: each.by_sizes for each in parts}
    assert sum(own.values()) == pytest.approx(steps.by_sizes, rel=1e-4)
