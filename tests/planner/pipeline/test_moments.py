"""Memory of pieces that take turns: the largest sum over time, no more and no less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.schedules.orders import SCHEDULES, Direction
from costmodel.schedules.orders import Shape as ScheduleShape
from planner.lowering.lowered import Lowered, NodeKind
from planner.lowering.pieces import Span, pieces_of
from planner.pipeline.configuration import _ConfigurationLayouts
from planner.pipeline.prices import PERSISTENT, piece_costs, priced_memory
from planner.pipeline.search_state import PipelineSearch
from planner.pipeline.space import Configuration
from planner.request import SearchRequest
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

SHAPES = [
    Configuration(2, 4, 4, 2),
    Configuration(2, 2, 8, 2),
    Configuration(2, 4, 2, 3),
    Configuration(4, 1, 16, 2),
]


def whole_of(shape: Configuration) -> _ConfigurationLayouts:
    """Pieces of very different lengths."""
    batch = shape.micro_batch * shape.micro_batches
    request = SearchRequest(global_batch=batch, pipeline=str(shape.stages),
                            interleave=str(shape.chunks), zero="0", overlap="none")  # fmt: skip
    task = PipelineSearch(mlp(12, batch, 64, 128), named_cluster("atlas-800t-a2", 8), request)
    count = task.true_micro(shape.micro_batch).segments.count
    inner = np.random.default_rng(shape.pieces).choice(count - 1, shape.pieces - 1, replace=False)
    ends = (*sorted((inner + 1).tolist()), count)
    return _ConfigurationLayouts(task, shape, ends, 0.0, tuple(range(shape.stages)))


def alone(whole: _ConfigurationLayouts, piece: int, *, again: int, recompute: bool) -> Lowered:
    """The problem of one piece on devices of its own, with two micro-batches on the way."""
    task, shape = whole.task, whole.shape
    micro = task.true_micro(shape.micro_batch)
    span = Span(*whole.spans[piece], None, whole.blocks[piece][:again])
    pieces = pieces_of(micro.liveness, micro.by_position, [span], [piece])
    setting = task.setting(micro, *task.stage_machine(shape), shape.micro_batches)
    return task.lowered(pieces, replace(setting, recompute=recompute, in_flight=(2,)))


def standing(lowered: Lowered, choice: tuple[int, ...]) -> float:
    """Bytes that stand however many micro-batches are on the way: parameters and inputs."""
    kinds = {NodeKind.PARAMETER, NodeKind.INPUT}
    tables = (lowered.problem.node_tables[table] for table in lowered.problem.node_table_of)
    rows = zip(lowered.nodes, tables, choice, strict=True)
    return sum(float(sum(v[c] for v in t.memory_bytes)) for n, t, c in rows if n.kind in kinds)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("again", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_peak_of_a_device_is_the_largest_sum_over_time(
    shape: Configuration, again: int, recompute: bool
) -> None:
    """To the byte: of all passes what they hold themselves, and what the others on the way keep."""
    whole = whole_of(shape)
    counts = tuple(min(again, len(own)) for own in whole.blocks)
    draw = np.random.default_rng(3)
    for part in range(shape.stages):
        lowered = whole._lowered(counts, recompute=recompute, part=part)
        choice = [int(draw.integers(size)) for size in lowered.problem.sizes]
        own, kept, stands = [], [], []
        for piece in range(part, shape.pieces, shape.stages):
            one = alone(whole, piece, again=counts[piece], recompute=recompute)
            named = zip(lowered.nodes, choice, strict=True)
            chosen = tuple(c for node, c in named if node.stage == piece)
            costs = piece_costs(one, chosen, piece + 1)
            own.append(costs.peak_bytes[piece])
            kept.append(costs.kept_bytes[piece])
            stands.append(standing(one, chosen))
        now, most = [0] * shape.chunks, 0.0
        order = ScheduleShape(shape.stages, shape.chunks, shape.micro_batches)
        for item in SCHEDULES["interleaved"].order(order, part):
            forward = item.direction is Direction.FORWARD
            now[item.chunk] -= not forward
            others = sum(n * k for n, k in zip(now, kept, strict=True))
            most = max(most, sum(stands) - stands[item.chunk] + own[item.chunk] + others)
            now[item.chunk] += forward
        assert lowered.problem.peak_bytes(choice) == most


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_price_on_memory_is_paid_for_what_stands_on_the_average(shape: Configuration) -> None:
    """Over the moments of a part, when its piece turns from forward to backward."""
    whole, price = whole_of(shape), 1e-12
    lowered = whole._lowered((0,) * shape.pieces, recompute=False, part=0)
    liveness, problem = lowered.liveness, lowered.problem
    choice = [size - 1 for size in problem.sizes]
    spans = [span for piece in range(shape.chunks) for span in liveness.moments_of(piece)]
    turns = [(start + end) // 2 for start, end in spans]
    held = 0.0
    for number, node in enumerate(lowered.nodes):
        table = problem.node_tables[problem.node_table_of[number]]
        rows = zip(node.memory_causes, problem.node_intervals[number], table.memory_bytes,
                   strict=True)  # fmt: skip
        for cause, (start, end), nbytes in rows:
            if cause in PERSISTENT:
                held += nbytes[choice[number]] * sum(start <= turn < end for turn in turns)
    for number, (u, v) in enumerate(problem.edges):
        copies = problem.edge_tables[problem.edge_table_of[number]].memory_bytes
        for (start, end), nbytes in zip(problem.edge_intervals[number], copies, strict=True):
            if end - start > 1:
                held += nbytes[choice[u], choice[v]] * sum(start <= t < end for t in turns)
    priced = priced_memory(lowered, (price,) * shape.pieces).problem
    paid_s = priced.cost_s(choice) - problem.cost_s(choice)
    assert paid_s == pytest.approx(price * held / len(turns), rel=1e-6)
