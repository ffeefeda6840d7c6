"""Equal things are shown once."""

from __future__ import annotations

import pytest

from ir.folding import (
    Axes,
    common_scope,
    folded,
)
from ir.plan import NamedLayout, Plan
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast

AXES = Axes((("server", 2, 0), ("card0", 2, 1), ("card1", 4, 1)), ("server", "card"))


@pytest.fixture
def plan() -> Plan:
    return tiny_plan()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("m.layers.0.mlp", "m.layers.*.mlp"),
        ("blocks.10.attn.2.w", "blocks.*.attn.*.w"),
        ("node_linear_6", "node_linear_*"),
        ("layer1.conv2", "layer1.conv2"),
        ("sha256", "sha256"),
        ("", ""),
    ],
)
def test_numbers_that_stand_alone_are_folded(name: str, pattern: str) -> None:
    assert folded(name) == pattern


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["m.model.a", "m.head"], "m."),
        (["model.layers.1.a", "model.layers.10.a"], "model."),
        (["model.layers.1", "model.layers.10"], "model."),
        (["a.x", "b.x"], ""),
        (["", "m.a"], "m."),
        ([], ""),
    ],
)
def test_the_common_scope_ends_at_a_module(names: list[str], prefix: str) -> None:
    assert common_scope(names) == prefix


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ((), "-"),
        (("server",), "server"),
        (("card0", "card1"), "card"),
        (("card1", "card0"), "card1*card0"),
        (("card1",), "card1"),
        (("server", "card0", "card1"), "all"),
        (("card0", "card1", "server"), "card*server"),
        (("server", "card0"), "server*card0"),
    ],
)
def test_axes_are_named_by_what_they_cover_in_order(axes: tuple[str, ...], text: str) -> None:
    assert AXES.short(axes) == text


def test_axes_of_one_device_are_left_out() -> None:
    axes = Axes((("server", 1, 0), ("card", 8, 1)), ("server", "card"))
    assert axes.layout(NamedLayout((("server", "card"), ("server",)))) == "[card,-]"


def test_equal_neighbours_are_counted_and_scalars_left_out() -> None:
    row = NamedLayout((("server",), ()))
    layouts = [row, None, row, NamedLayout(()), NamedLayout(((),), ("card0", "card1"))]
    assert AXES.layouts(layouts) == "2 x [server,-], [-]+card"
