"""MindSpore gives a reshape no layout: what goes through it is redistributed once."""

from __future__ import annotations

import pytest

from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import Cuts, SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

SERVERS_AND_CARDS: Cuts = ((2, 8, 1, 1),)
WHOLE_ROWS: Cuts = ((1, 1), (1, 16))
"""Between these two an exchange before the reshape and a gather behind it would be fastest."""


def tail(batch: int = 64, channels: int = 2048) -> OpGraph:
    """The end of a network on images."""
    build = GraphBuilder("tail")
    x = build.input("x", (batch, channels, 1, 1))
    x = build.op("Softmax", (x,), (batch, channels, 1, 1), axis=3, name="first")
    x = build.op("Reshape", (x,), (batch, channels), name="flat")
    weight = build.weight("w", (channels, 1024))
    return build.build(build.op("MatMul", (x, weight), (batch, 1024), name="last"))


def planned(*pins: tuple[str, Cuts], cost: str = "time", training: bool = False) -> Plan:
    held = (("op_first", SERVERS_AND_CARDS), *pins)
    request = SearchRequest(pins=held, cost=cost, training=training)
    return search(tail(), named_cluster("atlas-800t-a2", 16), request)


def sides(plan: Plan) -> tuple[bool, bool]:
    """Whether anything is sent forward before the reshape, and behind it."""
    moves = [item for item in plan.collectives if item.cause == "forward"]
    before = any(item.operator == "op_flat" for item in moves)
    return before, any(item.tensor == "flat" for item in moves)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("cost", ["time", "mindspore"])
def test_a_reshape_takes_its_operand_as_it_is_made(cost: str, training: bool) -> None:
    plan = planned(("op_last", WHOLE_ROWS), cost=cost, training=training)
    assert sides(plan) == (False, True)


def test_a_reshape_that_the_user_pins_stays_as_pinned() -> None:
    plan = planned(("op_flat", ((16, 1, 1, 1),)), ("op_last", WHOLE_ROWS))
    assert sides(plan) == (True, True)
    assert plan.bound.bound_s < 1
