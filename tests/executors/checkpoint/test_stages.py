"""Checkpoints of plans with pipeline stages: each rank keeps what its stage has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from executors.checkpoint.pairing import Request
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_slicing import plan_slicing
from ir.slicing import Slicing
from planner.pipeline.space import Configuration
from planner.repricing.migration_cost import migration
from tests.builders import GraphBuilder
from tests.executors.checkpoint.files import Arrays, assert_same, read_ranks
from tests.executors.checkpoint.moves import cut, move, saved
from tests.executors.drawn_stages import drawn_stages

pytestmark = pytest.mark.fast


def network() -> OpGraph:
    """Products of odd widths, of which the first and the last have the same weight."""
    build = GraphBuilder("network")
    x, tied = build.input("x", (4, 24)), build.weight("tied.weight", (24, 20))
    x = build.op("Relu", (build.op("MatMul", (x, tied), (4, 20)),), (4, 20))
    for layer in range(6):
        weight = build.weight(f"layers.{layer}.weight", (20, 20))
        x = build.op("Relu", (build.op("MatMul", (x, weight), (4, 20)),), (4, 20))
    return build.build(build.op("MatMul", (x, tied), (4, 24), trans_b=1))


def planned(stages: int, seed: int, chunks: int = 1) -> Plan:
    shape = Configuration(stages, 4, 4, chunks)
    return drawn_stages(network(), 8, shape, "generic", seed, "auto" if chunks == 1 else "0")


def arrays(layout: Slicing) -> Arrays:
    draw = np.random.default_rng(3)
    return {name: draw.standard_normal(dims).astype(np.float32)
            for name, dims in layout.dims.items()}  # fmt: skip


def held(layout: Slicing, rank: int) -> set[str]:
    return {n for n, grids in layout.grids.items() if any(rank in grid.ranks for grid in grids)}


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
@pytest.mark.parametrize("seed", range(3))
def test_from_two_stages_to_four_and_back_is_the_identity(
    seed: int, suffix: str, folder: Path
) -> None:
    two, four = (plan_slicing(planned(stages, seed)) for stages in (2, 4))
    if seed == 2:
        unequal = Configuration(3, 4, 4, sizes=(4, 2, 2))
        four = plan_slicing(drawn_stages(network(), 8, unequal, "generic", seed))
    whole = arrays(two)
    start = saved(folder / "two", whole, two, suffix)
    move(start, two, Request(four), folder / "four")
    for found, wanted in zip(read_ranks(folder / "four"), cut(whole, four), strict=True):
        assert_same(found, wanted)
    move(folder / "four", four, Request(two), folder / "back")
    for found, wanted in zip(read_ranks(folder / "back"), read_ranks(start), strict=True):
        assert_same(found, wanted)


def test_optimizer_states_in_parts_come_back_in_parts(folder: Path) -> None:
    """ZeRO 1: a state lies in more parts than its parameter."""
    plans = [drawn_stages(network(), 8, Configuration(p, 4, 4), "generic", 2, "1") for p in (2, 4)]
    two, four = map(plan_slicing, plans)
    assert two.states
    assert four.states
    whole = arrays(two)
    states = {f"adam_m.{name}": array + 1 for name, array in whole.items()}
    for old, new, here, there in ((two, four, "two", "four"), (four, two, "four", "back")):
        named = {f"adam_m.{name}": grids for name, grids in old.of_states().grids.items()}
        layout = replace(old, grids={**old.grids, **named})
        if here == "two":
            saved(folder / here, whole | states, layout, ".safetensors")
        move(folder / here, old, Request(new), folder / there)
    for found, wanted in zip(read_ranks(folder / "back"), read_ranks(folder / "two"), strict=True):
        assert_same(found, wanted)
    smaller = 0
    for rank, found in enumerate(read_ranks(folder / "four")):
        own = held(four, rank)
        assert set(found) == own | {f"adam_m.{name}" for name in own}
        smaller += sum(found[f"adam_m.{name}"].size < found[name].size for name in own)
    assert smaller > 0


def test_a_rank_keeps_what_its_stages_hold() -> None:
    plan = planned(2, 0, 2)
    layout = plan_slicing(plan)
    for op, planned_op in zip(plan.graph.ops, plan.operators, strict=True):
        weights = {n for n in op.inputs if n in layout.grids}
        for rank in range(8):
            if rank // 4 == planned_op.stage % 2:
                assert weights <= held(layout, rank)
    assert all(held(layout, rank) < set(layout.grids) for rank in range(8))
    assert all("tied.weight" in held(layout, rank) for rank in (0, 7))


def test_what_it_costs_to_change_the_number_of_stages() -> None:
    two, four = planned(2, 1), planned(4, 0)
    assert any(tensor.stage == 1 for tensor in two.parameters)
    assert migration(two, two).traffic.moved_bytes == 0
    there = migration(two, four)
    assert there.traffic.moved_bytes > 0
    assert there.time_s > 0
    assert there.traffic.lost_bytes == 0
    smaller = drawn_stages(network(), 4, Configuration(2, 4, 4), "generic", 0)
    gone = migration(two, smaller, lost=[4, 5, 6, 7])
    assert gone.traffic.lost_bytes > 0
