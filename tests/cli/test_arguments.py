"""Text of the command line becomes values, or one error that says how to mend it."""

from __future__ import annotations

import pytest

from cli.errors import UserError
from ir.symbols import Symbol
from planner.requests import option_texts as arguments

pytestmark = pytest.mark.fast


def test_bindings_of_several_options_are_joined() -> None:
    assert arguments.bindings(["batch=32, seq=4096", "x.0=1"]) == {
        "batch": 32,
        "seq": 4096,
        "x.0": 1,
    }


def test_the_same_binding_twice_is_no_contradiction() -> None:
    assert arguments.bindings(["a=1", "a=1"]) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch",
        "=3",
        "batch=",
        "batch=x",
        "batch=0",
        "batch=-1",
        "batch=1.5",
        "a=1,,b=2",
        "a=1,a=2",
        "a=1..",
        "a=9..1",
        "a=1..7/8",
        "a=1..9/4+4",
        "a=1..9,a=1..8",
    ],
)
def test_a_binding_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="fix: "):
        arguments.bindings([text])


def test_a_range_the_wrong_way_round_is_said_to_be_so() -> None:
    with pytest.raises(UserError, match="the least size, 16, is more than the most, 8"):
        arguments.bindings(["batch=16..8"])


def test_a_range_of_sizes_is_a_symbol() -> None:
    assert arguments.bindings(["batch=16..64/16,seq=8"]) == {"batch": Symbol(16, 64, 16), "seq": 8}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, None),
        ("data_parallel", "data_parallel"),
        ("full_batch", "full_batch"),
        ("((8,1),(8,1))", ((8, 1), (8, 1))),
        ("((8, 1),)", ((8, 1),)),
        ("[[2]]", ((2,),)),
        ("((),(4,))", ((), (4,))),
    ],
)
def test_a_dataset_strategy_is_a_name_or_cuts(text: str | None, value: object) -> None:
    assert arguments.dataset_strategy(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "()", "8", "(8,1)", "((8,0),)", "((8,-1),)", "((8,1)", "data", "((8,1.5),)",
     "__import__('os')",
     "(" * 5000 + ")" * 5000, "((1,)" * 4000],
)  # fmt: skip
def test_a_dataset_strategy_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--dataset-strategy"):
        arguments.dataset_strategy(text)


def test_memory_is_read_with_its_unit() -> None:
    assert arguments.memory_bytes("60GiB") == 60 * 2**30
    assert arguments.memory_bytes(None) is None


@pytest.mark.parametrize("text", ["lots", "", "60", "0GiB", "-1GiB", "1e400GiB", "GiB", "60 GiBs"])
def test_a_memory_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"fix: .*--memory 60GiB"):
        arguments.memory_bytes(text)


def test_an_unknown_name_is_answered_with_the_closest_and_all_others() -> None:
    with pytest.raises(UserError, match=r"did you mean 'train'\? known: train, infer"):
        arguments.one_of("trian", ("train", "infer"), "--phase", "phase")
