"""Closed forms of many groups at once: those of the scalar module, group by group."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives.algorithms import Stage, stage_curve
from costmodel.collectives.curves import NOTHING, Curve, FloatArray
from costmodel.collectives.hierarchy import Level, composed
from costmodel.collectives.kinds import Collective
from costmodel.collectives.shares import doublings
from costmodel.collectives.two_levels import TwoLevelGroup, TwoLevels
from topology.cluster import TierKind

RATES = st.floats(1e8, 1e12)
LATENCIES = st.floats(0, 1e-4)
MACHINES = st.tuples(st.booleans(), RATES, LATENCIES, RATES, LATENCIES)
Machine: TypeAlias = tuple[bool, float, float, float, float]
Case: TypeAlias = tuple[Machine, tuple[int, int], float]
GROUPS = st.tuples(st.integers(1, 72), st.integers(1, 5000))
CASES = st.lists(st.tuples(MACHINES, GROUPS, st.floats(0, 1e11)), min_size=1, max_size=8)


def columns(cases: list[Case]) -> tuple[TwoLevels, FloatArray, TwoLevelGroup]:
    """Machines, bytes and groups side by side."""
    machines = np.array([machine for machine, _, _ in cases], dtype=np.float64).T
    groups = np.array([group for _, group, _ in cases], dtype=np.float64).T
    return TwoLevels(*machines), np.array([n for _, _, n in cases]), TwoLevelGroup(*groups)


def stages(machine: Machine, group: tuple[int, int]) -> tuple[Stage, Stage]:
    """One of the groups as the scalar module has it: inside, across."""
    mesh, link, link_latency, port, port_latency = machine
    wiring = TierKind.FULL_MESH if mesh else TierKind.SWITCH
    return (
        Stage(group[0], link_latency, 1 / link, wiring),
        Stage(group[1], port_latency, 1 / port, TierKind.SWITCH),
    )


def gathered(pair: tuple[Stage, Stage], kind: Collective) -> Curve:
    """An all-gather or a reduce-scatter inside and across."""
    names = ("mesh", "overlapped")
    levels = [Level((stage,), name) for stage, name in zip(pair, names, strict=True)]
    return composed([level for level in levels if level.ranks > 1], kind)


@given(CASES, st.sampled_from((Collective.ALL_GATHER, Collective.REDUCE_SCATTER)))
def test_gathers_are_those_of_the_scalar_module(cases: list[Case], kind: Collective) -> None:
    machines, nbytes, groups = columns(cases)
    found = machines.all_gather_s(nbytes, groups)
    wanted = [gathered(stages(m, g), kind).time_s(n) for m, g, n in cases]
    assert found.tolist() == pytest.approx(wanted, rel=1e-12)


@given(CASES)
def test_exchanges_are_direct(cases: list[Case]) -> None:
    """Of what a mesh exchanges inside, the share for the own server; the rest leaves it."""
    machines, nbytes, groups = columns(cases)
    wanted = []
    for machine, group, n in cases:
        inner, outer = stages(machine, group)
        inside, across = (
            (stage_curve("mesh", stage, Collective.ALL_TO_ALL) or NOTHING)
            if stage.ranks > 1
            else NOTHING
            for stage in (inner, outer)
        )
        wanted.append(inside.on_share(outer.ranks).time_s(n) + across.time_s(n))
    found = machines.all_to_all_s(nbytes, groups)
    assert found.tolist() == pytest.approx(wanted, rel=1e-12)


@given(CASES)
def test_messages_go_over_a_link_inside_and_over_a_port_across(cases: list[Case]) -> None:
    machines, nbytes, groups = columns(cases)
    found = machines.send_s(nbytes, groups.inner > 1)
    wanted = []
    for machine, group, n in cases:
        stage = stages(machine, group)[0 if group[0] > 1 else 1]
        wanted.append((stage_curve("", stage, Collective.POINT_TO_POINT) or NOTHING).time_s(n))
    assert found.tolist() == pytest.approx(wanted, rel=1e-12)


@given(st.integers(1, 2**40))
def test_steps_double_what_is_known(ranks: int) -> None:
    steps = int(doublings(np.array([float(ranks)]))[0])
    assert 2**steps >= ranks > 2**steps / 2
    assert steps == int(doublings(ranks))
