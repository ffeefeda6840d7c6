"""Experts on the ranks of a layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodel.training.communication import routing_of
from costmodel.training.layers import routed_copies
from costmodel.training.links import Group, links_of
from costmodel.training.memory import gathered_bytes
from costmodel.training.rows import expert_remarks
from costmodel.training.sizes import (
    expert_parameters,
    expert_parts,
    expert_replicas,
    gathered_parameters,
    replicas_of,
    stage_parameters,
    wanted_expert_parts,
)
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import LLAMA, ROUTED, run
from tests.costmodel.training.test_step import (
    CONSTANTS,
    QUIET,
    SPARSE,
    forward,
)


def test_ranks_with_the_same_tokens_send_all_of_them_to_experts() -> None:
    """Without split sequences each of four ranks exchanges four times as much."""
    table = RunTable.of([run(SPARSE, tp=4, sequence_parallel=split) for split in (True, False)])
    assert routed_copies(table).tolist() == pytest.approx([2048.0, 4 * 2048.0])
    fast = replace(QUIET, port=1e9)
    exchange = [
        forward(SPARSE, dp=4, ep=4, sequence_parallel=split, split=True)
        - forward(SPARSE, fast, dp=4, ep=4, sequence_parallel=split, split=True)
        for split in (True, False)
    ]
    assert exchange[1] == pytest.approx(4 * exchange[0], rel=0.02)


def test_ranks_of_whole_experts_are_next_to_one_another() -> None:
    """Split, every fourth rank is one of theirs, on other servers; whole, four of one server."""
    fast = replace(QUIET, port=1e9)
    across = [
        forward(SPARSE, dp=4, ep=4, split=split) - forward(SPARSE, fast, dp=4, ep=4, split=split)
        for split in (False, True)
    ]
    assert across[0] == 0
    assert across[1] > 0


def test_experts_that_are_split_gather_the_copies_of_all_ranks() -> None:
    """Beside whole experts: a gather and a scatter of four copies of each token."""
    fast = replace(QUIET, link=1e9)
    moved = [
        forward(SPARSE, split=split) - forward(SPARSE, fast, split=split) for split in (False, True)
    ]
    table = RunTable.of([run(SPARSE, tp=4)])
    copies, members = np.array([2.0 * 2048 * 4 * SPARSE.hidden]), Group(np.array([4.0]), np.ones(1))
    gather, start = (float(links_of(table, c).all_gather_s(copies, members)[0])
                     for c in (QUIET, fast))  # fmt: skip
    assert moved[1] - moved[0] == pytest.approx(2 * (gather - start), rel=1e-6)


def test_experts_that_nobody_splits_spare_the_second_pair_of_collectives() -> None:
    """Dense layers, and shared experts, sum after attention and after their products."""
    fast = replace(QUIET, link=1e9)
    dense = replace(LLAMA, kv_heads=8)
    shared = replace(SPARSE, shared_ffn=1024)
    moved = [forward(each) - forward(each, fast) for each in (dense, shared, SPARSE)]
    assert moved == pytest.approx([moved[0], moved[0], moved[0] / 2], rel=1e-6)


@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 16))
def test_a_token_crosses_at_most_once_for_each_of_its_experts(
    inner: int, outer: int, visits: int
) -> None:
    """Never more than a copy for each, and at most one for each device or server."""
    table = RunTable.of([run(ROUTED, "h100", dp=8, ep=8)])
    near, far = np.array([2.0**inner]), np.array([2.0**outer])
    members, nbytes = Group(near * far, 8 / near), np.array([1e9])
    links = links_of(table, QUIET)

    def once(chosen: float) -> float:
        sizes = {"experts": np.array([128.0]), "experts_per_token": np.array([chosen])}
        return float(links.dispatch_s(nbytes, members, routing_of(table.with_columns(sizes)))[0])

    assert once(visits) <= visits * once(1) * (1 + 1e-9)
    assert once(visits) >= once(1) * (1 - 1e-12)
    every = links.all_to_all_s(nbytes * near * far, Group(near, 8 / near))
    every = every + links.all_to_all_s(nbytes * far, Group(far, np.array([8.0])))
    assert once(128) == pytest.approx(float(every[0]), rel=1e-9)


@given(
    st.sampled_from([1, 2, 4, 16]), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 4, 8]), st.booleans(), st.booleans(), st.sampled_from([0, 1, 2, 4]),
)  # fmt: skip
def test_every_part_of_every_expert_is_somewhere(
    tp: int, dp: int, cp: int, ep: int, split: bool, tokens: bool, etp: int
) -> None:
    """Parts of experts on all devices are all experts, as often as there are replicas of them:
    whole, and once at least."""
    assume(tp * cp * dp % ep == 0 and tp % max(etp, 1) == 0)
    made = run(ROUTED, tp=tp, dp=dp, cp=cp, ep=ep, etp=etp, sequence_parallel=tokens and tp > 1)
    made = replace(made, flags=frozenset({"split-experts"} if split else ()))
    table = RunTable.of([made])
    _, here = stage_parameters(table, table.layers, np.array([2.0]))
    whole = float(expert_parameters(table)[0]) * ROUTED.layers
    copies = float(expert_replicas(table, replicas_of(table))[0])
    assert float(here[0]) * tp * dp * cp == pytest.approx(whole * copies, rel=1e-12)
    assert copies >= 1
    assert copies == int(copies)
    parts, wanted = int(expert_parts(table)[0]), int(wanted_expert_parts(table)[0])
    assert (parts == wanted) == (tp * dp * cp % (wanted * ep) == 0)
    assert any(expert_remarks(made)) == (parts != wanted)


def test_tokens_that_may_visit_four_servers_of_eight_pass_the_ports_less_often() -> None:
    """As often as tokens drawn at random: 3.98 servers, of 5.30 without a limit."""
    across = []
    for groups, best in ((0, 0), (8, 8), (8, 4)):
        model = replace(
            SPARSE, experts=256, experts_per_token=8, expert_groups=groups, groups_per_token=best
        )
        made = run(model, "h100", dp=64, ep=64)
        made = replace(made, flags=frozenset({"sends-once"}))
        free = replace(made, port_bytes_per_s=1e18)
        slow, fast = (step_times(RunTable.of([each]), QUIET) for each in (made, free))
        across.append(float((slow.layer_forward - fast.layer_forward)[0]))
    assert across[1] == pytest.approx(across[0], rel=1e-9)
    assert across[2] == pytest.approx(across[0] * 3.98 / 5.30, rel=2e-2)


def test_the_host_need_not_wait_for_experts_of_fixed_size() -> None:
    """As where captured graphs are replayed."""
    slow = replace(CONSTANTS, host_s=1.0)
    made = run(ROUTED, dp=2, ep=2)
    table, fixed, graphs = (
        RunTable.of([replace(made, flags=flags)])
        for flags in (frozenset[str](), frozenset({"fixed-experts"}), frozenset({"graphs"}))
    )
    waits, goes_on, replayed = (step_times(each, slow).total[0] for each in (table, fixed, graphs))
    assert goes_on == replayed
    assert goes_on == pytest.approx(waits * slow.graphed, rel=0.05)


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_experts_that_no_other_replica_has_are_not_gathered(ep: int) -> None:
    """Of wider experts sharded parameters take longer to gather, and more room, unless each device
    has experts of its own.
    """
    models = ROUTED, replace(ROUTED, expert_ffn=2 * ROUTED.expert_ffn)
    table = RunTable.of([run(model, dp=8, ep=ep, zero_stage=3) for model in models])
    for gathered in (
        step_times(table, CONSTANTS).layer_gather,
        gathered_bytes(table, table.layers),
        sum(gathered_parameters(table)),
    ):
        narrow, wide = np.broadcast_to(gathered, (2,))
        assert (wide > narrow) == (ep < 8)
