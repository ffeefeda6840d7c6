"""Positions of graphs: laws for any graph."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from planner.repricing.flows import sent_bytes
from service.views.positions import placed


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[list[int]]]:
    count = draw(st.integers(1, 40))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = [(min(pair), max(pair)) for pair in draw(st.lists(ends, max_size=80))]
    cuts = sorted(draw(st.sets(st.integers(1, count), max_size=6)) | {0, count})
    blocks = [list(range(a, b)) for a, b in itertools.pairwise(cuts)]
    return count, [(a, b) for a, b in edges if a != b], blocks


@given(graphs(), st.floats(1.0, 5.0))
def test_no_two_nodes_share_a_place_and_edges_of_a_block_lead_down(
    graph: tuple[int, list[tuple[int, int]], list[list[int]]], spread: float
) -> None:
    count, edges, blocks = graph
    found = placed(count, edges, blocks, spread)
    places = list(zip(found.x, found.y, strict=True))
    assert len(set(places)) == count
    for block, frame in zip(blocks, found.frames, strict=True):
        assert all(frame.left - 1e-9 <= found.x[n] <= frame.right + 1e-9 for n in block)
        assert all(frame.top <= found.y[n] <= frame.bottom for n in block)
    inside = {n: i for i, block in enumerate(blocks) for n in block}
    for a, b in edges:
        if inside[a] == inside[b]:
            assert found.y[a] < found.y[b]


@given(
    st.sampled_from(["all_gather", "reduce_scatter", "all_reduce"]),
    st.floats(1, 1e12),
    st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3),
)
def test_what_a_device_sends_over_all_tiers_is_what_one_tier_of_their_size_would_take(
    kind: str, nbytes: float, sizes: list[int]
) -> None:
    whole = 1
    for size in sizes:
        whole *= size
    (flat,) = sent_bytes(kind, nbytes, (whole,))
    assert abs(sum(sent_bytes(kind, nbytes, sizes)) - flat) <= 1e-9 * nbytes
