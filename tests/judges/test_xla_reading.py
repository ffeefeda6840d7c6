"""Messages are read from the text of a module, and normalised as XLA's other pipelines would."""

from __future__ import annotations

import pytest

from executors.judgement import Traffic
from executors.xla.hlo import Instruction, groups_of, parse_module
from executors.xla.reading import ADDED, FOLDED, SCATTERED, SPLIT, Reading, read

HEAD = """
HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%top (a: f32[], b: f32[]) -> f32[] {
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %m = f32[] maximum(%a.1, %b.1)
}

ENTRY %main (p: f32[8,4], q: f32[8,4]) -> f32[] {
  %p = f32[8,4]{1,0} parameter(0)
  %q = f32[8,4]{1,0} parameter(1)
  %id = u32[] partition-id()
  %zero = s32[] constant(0)
"""
ALL = "replica_groups={{0,1,2,3}}, to_apply=%add"
PAIRS = "replica_groups={{0,1},{2,3}}, to_apply=%add"
ACROSS = "replica_groups={{0,2},{1,3}}, to_apply=%add"


def reading_of(*lines: str) -> Reading:
    """Of four partitions, whose entry has these lines after its parameters."""
    body = "\n".join(f"  {line}" for line in lines)
    return read(parse_module(f"{HEAD}{body}\n}}\n"), 4)


def offsets(*rows: int) -> tuple[str, ...]:
    """First row of the slice of each partition."""
    table = ", ".join(map(str, rows))
    return (
        f"%table = s32[4]{{0}} constant({{{table}}})",
        "%own = s32[1]{0} dynamic-slice(%table, %id), dynamic_slice_sizes={1}",
        "%row = s32[] reshape(%own)",
    )


def test_messages_count_as_their_kind_does() -> None:
    """The result of a gather, the operand of a sum; what is unused or repeated does not count."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), channel_id=1, {ALL}",
        f"%again = f32[8,4]{{1,0}} all-reduce(%p), channel_id=2, {ALL}",
        f"%unused = f32[8,4]{{1,0}} all-reduce(%q), channel_id=3, {ALL}",
        "%g = f32[16,4]{1,0} all-gather(%r), replica_groups={{0,1},{2,3}}, dimensions={0}",
        "%x = f32[8,4]{1,0} all-to-all(%q), replica_groups={{0,1,2,3}}, dimensions={0}",
        "ROOT %out = (f32[8,4], f32[8,4], f32[16,4], f32[8,4]) tuple(%r, %again, %g, %x)",
    )
    assert found.messages == (
        Traffic("all_gather", 2, 256, 1),
        Traffic("all_reduce", 4, 128, 1),
        Traffic("all_to_all", 4, 128, 1),
    )


def test_a_sum_that_is_sliced_is_a_reduce_scatter() -> None:
    """Also behind a transpose."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        "%t = f32[4,8]{0,1} transpose(%r), dimensions={1,0}",
        *offsets(0, 2, 4, 6),
        "ROOT %o = f32[4,2]{1,0} dynamic-slice(%t, %zero, %row), dynamic_slice_sizes={4,2}",
    )
    assert found.messages == (Traffic("reduce_scatter", 4, 128, 1),)
    assert found.notes == (SCATTERED,)


@pytest.mark.parametrize(
    "rows", [(0, 0, 0, 0), (0, 2, 4, 4)], ids=["all take the same", "two take the same"]
)
def test_a_slice_that_is_no_part_of_each_device_is_none(rows: tuple[int, ...]) -> None:
    """Then the sum is needed whole."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        *offsets(*rows),
        "ROOT %o = f32[2,4]{1,0} dynamic-slice(%r, %row, %zero), dynamic_slice_sizes={2,4}",
    )
    assert found.messages == (Traffic("all_reduce", 4, 128, 1),)
    assert found.notes == ()


def test_a_slice_across_a_merged_dimension_is_no_reduce_scatter() -> None:
    """The rows that a device keeps are no slice of what was summed."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        "%s = f32[2,4,4]{2,1,0} reshape(%r)",
        *offsets(0, 1, 2, 3),
        "ROOT %o = f32[2,1,4]{2,1,0} dynamic-slice(%s, %zero, %row, %zero), "
        "dynamic_slice_sizes={2,1,4}",
    )
    assert found.messages == (Traffic("all_reduce", 4, 128, 1),)


def test_a_sum_sliced_inside_smaller_groups_is_scattered_and_summed_across() -> None:
    """Partitions 0 and 2, and 1 and 3, take the same half."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        *offsets(0, 4, 0, 4),
        "ROOT %o = f32[4,4]{1,0} dynamic-slice(%r, %row, %zero), dynamic_slice_sizes={4,4}",
    )
    assert found.messages == (
        Traffic("all_reduce", 2, 64, 1),
        Traffic("reduce_scatter", 2, 128, 1),
    )
    assert found.notes == (SPLIT,)


@pytest.mark.parametrize(("other", "count"), [(ALL, 1), (PAIRS, 2)])
def test_sums_that_are_only_added_are_one(other: str, count: int) -> None:
    """If their groups are the same."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        f"%s = f32[8,4]{{1,0}} all-reduce(%q), {other}",
        "ROOT %o = f32[8,4]{1,0} add(%r, %s)",
    )
    assert sum(m.count for m in found.messages) == count
    assert (ADDED in found.notes) == (count == 1)


def test_sums_that_something_else_reads_too_stay_two() -> None:
    """One of them is needed by itself."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {ALL}",
        f"%s = f32[8,4]{{1,0}} all-reduce(%q), {ALL}",
        "%a = f32[8,4]{1,0} add(%r, %s)",
        "ROOT %o = (f32[8,4], f32[8,4]) tuple(%a, %s)",
    )
    assert found.messages == (Traffic("all_reduce", 4, 256, 2),)


def test_a_sum_of_sums_over_other_axes_is_one() -> None:
    """First inside pairs, then across them."""
    found = reading_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%p), {PAIRS}",
        f"ROOT %s = f32[8,4]{{1,0}} all-reduce(%r), {ACROSS}",
    )
    assert found.messages == (Traffic("all_reduce", 4, 128, 1),)
    assert found.notes == (FOLDED,)


def test_a_maximum_is_no_sum() -> None:
    """It is counted as it stands, whatever follows."""
    found = reading_of(
        "%r = f32[8,4]{1,0} all-reduce(%p), replica_groups={{0,1,2,3}}, to_apply=%top",
        *offsets(0, 2, 4, 6),
        "ROOT %o = f32[2,4]{1,0} dynamic-slice(%r, %row, %zero), dynamic_slice_sizes={2,4}",
    )
    assert found.messages == (Traffic("all_reduce", 4, 128, 1),)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("replica_groups=[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("replica_groups=mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("replica_groups=mesh['a'=2,'b'=4] {'a','b'}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        (
            "replica_groups=mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}",
            ((0, 1, 2, 3), (4, 5, 6, 7)),
        ),
        ("replica_groups={}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
    ],
)
def test_groups_are_read_in_every_notation(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    """As lists, as iota and as axes of a mesh."""
    assert groups_of(Instruction("r", "all-reduce", (), (), f", {text}, x=1", False), 8) == groups


def test_an_unknown_notation_is_an_error() -> None:
    """It must not count as all partitions."""
    item = Instruction("r", "all-reduce", (), (), ", replica_groups=some[2]", False)
    with pytest.raises(ValueError, match="unknown way"):
        groups_of(item, 8)
