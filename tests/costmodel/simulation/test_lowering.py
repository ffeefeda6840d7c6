"""Pipelined steps: what travels beside the passes, and what the account says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.accounting import Account, account_of
from costmodel.simulation.bubbles import bubble_of
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.step import Block, Sharding, Slower, Stage, Step
from costmodel.simulation.task_graph import Activity, Span
from tests.costmodel.simulation.steps import block, even_step, step_s, transfer

OVERLAP = Effects(contention=Contention.NONE)
SHARDED = Sharding(tier="network", gather_each_pass=True, sync_each_micro=True)
ONCE = Sharding(tier="network")


def account(step: Step, effects: Effects) -> Account:
    lowered = Lowered(step, effects)
    timeline = run(lowered.graph)
    return account_of(timeline, lowered.step_s(timeline))


def slowed(own: Block, share: float) -> Block:
    """Layers whose passes and transfers take longer by a share of what travels beside them."""
    there, back = (share * own.gather_s, share * (own.gather_s + own.sync_s))
    return replace(own, slower_forward=Slower(there, there), slower_backward=Slower(back, back))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Uneven stages of several kinds of layers, with all that can travel."""
    schedule, chunks = draw(st.sampled_from([("1f1b", 1), ("gpipe", 1), ("interleaved", 2),
                                             ("zb-h1", 1), ("zb-h2", 1)]))  # fmt: skip
    seconds = st.sampled_from([0.0, 0.1, 0.5, 1.0])
    stages = []
    for number in range(draw(st.integers(1, 4))):
        own = tuple(
            (block(draw(seconds), draw(seconds), draw(seconds), draw(st.sampled_from([1.0, 2.5])),
                   gather_s=draw(seconds), sync_s=draw(seconds)),)
            for _ in range(chunks)
        )  # fmt: skip
        stages.append(Stage(f"stage {number}", own, update_s=draw(seconds)))
    sharding = Sharding("net", gather_each_pass=draw(st.booleans()),
                        sync_each_micro=draw(st.booleans()),
                        beside=draw(st.sampled_from([0.3, 1.0])))  # fmt: skip
    send = transfer(draw(seconds), draw(st.sampled_from(["net", "near"])))
    micro_batches = draw(st.integers(1, 6)) * (len(stages) if chunks > 1 else 1)
    return Step(tuple(stages), micro_batches, schedule, (send,), sharding)


@given(steps(), st.booleans(), st.sampled_from(Contention), st.sampled_from([0.0, 0.3]))
def test_computing_exposed_and_waiting_make_up_the_step_of_every_device(
    step: Step, overlap: bool, contention: Contention, interference: float
) -> None:
    found = account(step, Effects(overlap, contention, interference=interference))
    for device in found.devices:
        parts = device.computing_s + device.exposed_s + device.waiting_s
        assert parts == pytest.approx(found.step_s, rel=1e-9, abs=1e-9)
    total = sum(found.computing.values()) + found.exposed_s + found.waiting_s
    assert total == pytest.approx(found.step_s, rel=1e-9, abs=1e-9)
    assert all(c.hidden_s >= -1e-9 for c in found.communication)


@given(steps())
def test_overlap_never_makes_a_step_longer(step: Step) -> None:
    """Where stages wait for one another and update equally long: else one hides at the end of the
    step what another gathers behind its update.
    """
    equal = replace(step, stages=tuple(replace(s, update_s=0.5) for s in step.stages))
    equal = replace(equal, schedule=step.schedule.replace("zb-h2", "zb-h1"))
    assert step_s(equal, OVERLAP) <= step_s(equal) * (1 + 1e-9)


@given(steps())
def test_one_device_without_overlap_takes_the_sum_of_all_its_times(step: Step) -> None:
    alone = replace(step, stages=step.stages[:1])
    effects = Effects.none()
    graph = Lowered(alone, effects).graph
    assert step_s(alone) == pytest.approx(sum(graph.seconds), rel=1e-9, abs=1e-12)


@given(steps(), st.floats(0.1, 1))
def test_a_faster_machine_never_makes_a_step_longer(step: Step, factor: float) -> None:
    stages = tuple(
        replace(s, chunks=tuple(tuple(replace(b, gather_s=b.gather_s * factor,
                                              sync_s=b.sync_s * factor) for b in c)
                                for c in s.chunks))
        for s in step.stages
    )  # fmt: skip
    links = replace(
        step, stages=stages, transfers=tuple(transfer(t.forward_s * factor) for t in step.transfers)
    )
    for effects in (Effects.none(), OVERLAP, Effects()):
        assert step_s(links, effects) <= step_s(step, effects) * (1 + 1e-9)


def test_gradients_hide_behind_the_backward_pass_of_the_layers_before() -> None:
    """Four layers, a bucket each: only what the last one leaves is seen."""
    own = block(1.0, 2.0, layers=4.0, sync_s=1.5)
    step = even_step("1f1b", 1, 1, own, sharding=ONCE)
    assert step_s(step) == pytest.approx(4 * 3 + 4 * 1.5)
    assert step_s(step, OVERLAP) == pytest.approx(4 * 3 + 1.5)
    found = account(step, OVERLAP).communication[0]
    assert (found.total_s, found.exposed_s) == pytest.approx((6.0, 1.5))


def test_larger_buckets_hide_less() -> None:
    own = block(1.0, 2.0, layers=4.0, sync_s=1.5)
    for buckets, exposed in ((1.0, 1.5), (2.0, 3.0), (4.0, 6.0)):
        step = even_step("1f1b", 1, 1, own, sharding=replace(ONCE, buckets=buckets))
        assert step_s(step, OVERLAP) == pytest.approx(12 + exposed)


def test_gradients_of_earlier_micro_batches_are_only_added_up() -> None:
    own = block(1.0, 2.0, layers=2.0, sync_s=1.0)
    once = even_step("1f1b", 1, 3, own, sharding=ONCE)
    always = even_step("1f1b", 1, 3, own, sharding=replace(ONCE, sync_each_micro=True))
    assert step_s(once) == pytest.approx(3 * 6 + 2)
    assert step_s(always) == pytest.approx(3 * 6 + 3 * 2)


def test_sharded_parameters_are_gathered_ahead_of_each_layer() -> None:
    """Forward 0 1 2 and backward 2 1 0, each gather beside the layer before it."""
    own = block(1.0, 2.0, layers=3.0, gather_s=0.5)
    step = even_step("1f1b", 1, 1, own, sharding=SHARDED)
    assert step_s(step) == pytest.approx(9 + 6 * 0.5)
    assert step_s(step, OVERLAP) == pytest.approx(9 + 0.5)
    waiting = replace(OVERLAP, prefetch=0)
    assert step_s(step, waiting) == pytest.approx(9 + 6 * 0.5)


@pytest.mark.parametrize("mode", [Contention.NONE, Contention.QUEUE])
@pytest.mark.parametrize(("prefetch", "seen"), [(0, 6 * 0.75 + 1.0), (1, 0.75 + 1.0)])
def test_gathers_do_not_wait_for_the_gradients_of_the_layer_in_use(
    mode: Contention, prefetch: int, seen: float
) -> None:
    """Only the first gather and the last reduction have nothing to hide behind, as in FSDP with
    backward prefetching.
    """
    own = block(1.0, 2.0, layers=3.0, gather_s=0.75, sync_s=1.0)
    step = even_step("1f1b", 1, 1, own, sharding=SHARDED)
    effects = Effects(contention=mode, prefetch=prefetch)
    assert step_s(step, Effects.none()) == pytest.approx(9 + 6 * 0.75 + 3 * 1.0)
    assert step_s(step, effects) == pytest.approx(9 + seen)


@given(steps(), st.integers(0, 3))
def test_more_prefetching_never_makes_a_step_longer(step: Step, prefetch: int) -> None:
    less, more = (replace(OVERLAP, prefetch=prefetch + extra) for extra in (0, 1))
    assert step_s(step, more) <= step_s(step, less) * (1 + 1e-9)


@pytest.mark.parametrize("mode", [Contention.NONE, Contention.QUEUE])
def test_computation_may_be_slower_beside_what_is_gathered_and_reduced(mode: Contention) -> None:
    own = slowed(block(1.0, 2.0, layers=3.0, gather_s=0.5, sync_s=0.5), 0.2)
    step = even_step("1f1b", 1, 1, own, sharding=SHARDED)
    assert step_s(step) == pytest.approx(9 + 9 * 0.5)
    # Nine transfers slow computation by 0.1 s each, with the links in use, but for the first and
    # the last, which are seen.
    found = account(step, Effects(contention=mode))
    assert found.step_s == pytest.approx(9 + 7 * 0.1 + 2 * 0.5)
    assert found.computing["slowed by transfers"] == pytest.approx(7 * 0.1)
    assert sum(c.total_s for c in found.communication) == pytest.approx(9 * 0.5 + 7 * 0.1)
    assert found.exposed_s == pytest.approx(2 * 0.5)


def test_links_that_are_never_idle_take_all_that_is_sent() -> None:
    own = slowed(block(0.01, 0.02, layers=20.0, gather_s=1.0, sync_s=1.0), 0.25)
    step = even_step("1f1b", 1, 1, own, sharding=SHARDED)
    assert step_s(step, Effects()) >= 20 * 3 + 58 * 0.25


@pytest.mark.parametrize("beside", [0.0, 0.25, 1.0])
def test_what_software_does_not_send_beside_the_passes_is_seen(beside: float) -> None:
    """Gradients behind the last pass, parameters behind the update."""
    own = block(1.0, 2.0, layers=2.0, gather_s=0.75, sync_s=1.5)
    step = even_step("1f1b", 1, 4, own, sharding=replace(ONCE, beside=beside), update_s=0.5)
    late = (1 - beside) * 2 * (0.75 + 1.5)
    found = account(step, OVERLAP)
    assert found.step_s == pytest.approx(4 * 6 + 0.5 + beside * (0.75 + 1.5) + late)
    assert sum(c.total_s for c in found.communication) == pytest.approx(2 * (0.75 + 1.5))
    assert step_s(step) == pytest.approx(4 * 6 + 0.5 + 2 * (0.75 + 1.5))


def test_parameters_gathered_once_delay_only_the_first_micro_batch() -> None:
    own = block(1.0, 2.0, layers=2.0, gather_s=1.5)
    step = even_step("1f1b", 1, 4, own, sharding=ONCE)
    assert step_s(step) == pytest.approx(4 * 6 + 3)
    assert step_s(step, OVERLAP) == pytest.approx(4 * 6 + 1.5 + 0.5)


def test_transfers_between_stages_delay_the_first_and_the_last_micro_batch() -> None:
    own = block(1.0, 2.0)
    plain, sent = (even_step("1f1b", 4, 8, own, send_s=s) for s in (0.0, 0.25))
    assert step_s(sent, OVERLAP) - step_s(plain, OVERLAP) >= 2 * 3 * 0.25
    assert step_s(even_step("gpipe", 3, 4, own, send_s=0.25), OVERLAP) == pytest.approx(
        6 * 3 + 4 * 0.25
    )


def test_transfers_and_gradients_share_the_port_of_one_tier() -> None:
    own = block(1.0, 1.0, layers=2.0, sync_s=2.0)
    step = even_step("1f1b", 2, 2, own, send_s=1.0, sharding=ONCE)
    apart = replace(step, transfers=(transfer(1.0, "near"),))
    together = replace(step, transfers=(transfer(1.0, "network"),))
    for mode in (Contention.QUEUE, Contention.FAIR):
        effects = Effects(contention=mode)
        assert step_s(apart, effects) == pytest.approx(step_s(step, OVERLAP))
        assert step_s(together, effects) > step_s(apart, effects)


def test_communication_takes_computing_units_where_it_is_said_to() -> None:
    own = block(1.0, 2.0, layers=2.0, sync_s=1.0)
    step = even_step("1f1b", 1, 1, own, sharding=ONCE)
    slowed = step_s(step, Effects(interference=0.25))
    # One of two gradients runs beside a layer: both go at 1 / 1.25 while they overlap.
    assert slowed == pytest.approx(step_s(step, OVERLAP) + 0.25)


def test_all_stages_update_together_after_the_last_gradient() -> None:
    own = block(1.0, 2.0)
    step = even_step("1f1b", 3, 4, own, update_s=0.5)
    assert step_s(step) == pytest.approx((4 + 2) * 3 + 0.5)


def test_pairs_of_a_bidirectional_pipeline_hide_their_communication() -> None:
    moved = Span(Activity("experts", "all_to_all", "network"), 0.5)
    own = block(1.0, 1.0, 1.0)
    chatty = replace(own, forward=(*own.forward, moved), backward=(*own.backward, moved))
    quiet = step_s(even_step("dualpipe", 4, 20, own, chunks=2), Effects())
    both = even_step("dualpipe", 4, 20, chatty, chunks=2)
    found = account(both, Effects()).communication[0]
    assert found.total_s == pytest.approx(20 * 2 * 0.5)
    assert 0 < found.exposed_s < 0.5 * found.total_s
    assert step_s(both, Effects()) < quiet + 20 * 2 * 0.5
    in_turn = account(both, Effects.none()).communication[0]
    assert in_turn.exposed_s == in_turn.total_s


@given(steps())
def test_causes_of_waiting_sum_to_it(step: Step) -> None:
    waiting = account(step, OVERLAP).waiting_s
    split = bubble_of(step, OVERLAP, waiting)
    causes = split.ideal_s + split.imbalance_s + split.recomputation_s + split.communication_s
    assert causes == pytest.approx(split.total_s, rel=1e-9, abs=1e-9)


def test_the_bubble_of_equal_stages_is_the_schedules() -> None:
    step = even_step("1f1b", 4, 8, block(1.0, 2.0))
    split = bubble_of(step, OVERLAP, account(step, OVERLAP).waiting_s)
    assert (split.ideal_s, split.imbalance_s) == pytest.approx((9.0, 0.0))
    assert (split.recomputation_s, split.communication_s) == pytest.approx((0.0, 0.0))


def test_an_uneven_stage_and_recomputation_are_told_apart() -> None:
    step = even_step("1f1b", 4, 8, block(1.0, 2.0))
    again = (Span(Activity("recompute"), 1.0),)
    slow = Stage("stage 3", ((block(1.0, 2.5),),))
    uneven = replace(step, stages=(*step.stages[:3], slow))
    stages = tuple(
        replace(s, chunks=((replace(s.chunks[0][0], again=again),),)) for s in step.stages
    )
    recomputed = replace(step, stages=stages)
    first = bubble_of(uneven, OVERLAP, account(uneven, OVERLAP).waiting_s)
    second = bubble_of(recomputed, OVERLAP, account(recomputed, OVERLAP).waiting_s)
    assert first.imbalance_s > 0
    assert first.recomputation_s == pytest.approx(0.0)
    assert second.imbalance_s == pytest.approx(0.0)
    assert second.recomputation_s == pytest.approx(3 * 1.0)


@pytest.mark.parametrize(("schedule", "held"), [("1f1b", (4, 3, 2, 1)), ("gpipe", (8, 8, 8, 8))])
def test_memory_peaks_with_the_micro_batches_in_flight(
    schedule: str, held: tuple[int, ...]
) -> None:
    """Source: Narayanan et al., arXiv 2006.09503, section 3."""
    own = block(1.0, 2.0, layers=2.0, kept_bytes=5.0)
    step = even_step(schedule, 4, 8, own)
    step = replace(step, stages=tuple(replace(s, state_bytes=100.0) for s in step.stages))
    lowered = Lowered(step, Effects.none())
    curves = lowered.memory(run(lowered.graph))
    assert [c.peak_bytes for c in curves] == [100.0 + 2 * 5.0 * n for n in held]
    assert all(c.nbytes[-1] == pytest.approx(100.0) for c in curves)
    assert all((c.time_s[1:] > c.time_s[:-1]).all() for c in curves)
