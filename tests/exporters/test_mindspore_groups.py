"""Communication groups: MindSpore's names, its file, and the groups of a plan."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.errors import ExportError, StrategyFileError
from exporters.mindspore.groups import (
    Group,
    GroupFile,
    from_protobuf,
    group_name,
    groups_of,
    to_protobuf,
)
from ir.plan import NamedLayout, Plan

SAMPLE = (Path(__file__).parents[1] / "data" / "mindspore_operators" / "groups.pb").read_bytes()


def test_the_file_of_the_real_package_comes_back_as_it_is() -> None:
    found = from_protobuf(SAMPLE)
    assert len(found.groups) == 5
    assert to_protobuf(found) == SAMPLE


def test_names_are_those_of_the_real_package() -> None:
    assert all(group.name == group_name(group.ranks) for group in from_protobuf(SAMPLE).groups)
    assert group_name(tuple(range(8))) != group_name(tuple(range(1, 9)))


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1), max_size=5))
def test_any_groups_come_back(ranks: list[list[int]]) -> None:
    groups = tuple(Group(group_name(own), tuple(own)) for own in ranks)
    content = GroupFile(groups, (0,))
    assert from_protobuf(to_protobuf(content)) == content


def test_every_group_holds_its_rank_and_is_shared_by_its_members(plan: Plan) -> None:
    files = [groups_of(plan, rank) for rank in range(plan.devices)]
    assert any(file.groups for file in files)
    for rank, file in enumerate(files):
        assert rank in file.same
        for group in file.groups:
            assert rank in group.ranks
            assert 1 < len(group.ranks) < plan.devices
            assert all(group in files[member].groups for member in group.ranks)


def test_ranks_with_the_same_weights_are_those_that_no_layout_tells_apart(plan: Plan) -> None:
    outer, *_ = (name for name, size, _ in plan.mesh if size > 1)
    bare = [replace(t, layout=NamedLayout(((),) * len(t.dims))) for t in plan.tensors]
    whole = replace(plan, tensors=tuple(bare))
    assert groups_of(whole).same == tuple(range(plan.devices))
    first = next(i for i, t in enumerate(bare) if t.role == "parameter")
    dims = ((outer,), *((),) * (len(bare[first].dims) - 1))
    bare[first] = replace(bare[first], layout=NamedLayout(dims))
    assert len(groups_of(replace(plan, tensors=tuple(bare))).same) < plan.devices


def test_a_rank_that_is_not_there_is_refused(plan: Plan) -> None:
    with pytest.raises(ExportError, match="no rank 99"):
        groups_of(plan, 99)


@given(st.binary(max_size=64))
def test_other_bytes_give_one_kind_of_error(data: bytes) -> None:
    with suppress(StrategyFileError):
        from_protobuf(data)


def test_bytes_cut_short_are_refused() -> None:
    for end in range(len(SAMPLE)):
        with pytest.raises(StrategyFileError):
            from_protobuf(SAMPLE[:end])
