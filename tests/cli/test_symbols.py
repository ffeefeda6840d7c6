"""`--bind 'batch=Symbol(divisor=8)'`: MindSpore's symbols, of one rank, become ranges of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from cli.errors import UserError
from planner.requests.symbols import LocalSymbol, split_symbols
from tests.cli.conftest import MLP

Planner = Callable[..., Any]


def bound(planner: Planner, model: Path, tmp_path: Path, *arguments: str) -> list[list[object]]:
    out = tmp_path / "plan"
    run = planner("search", model, "--devices", "8", "--optimizer", "sgd", "-o", out, *arguments)
    assert run.code == 0, run.err
    found: list[list[object]] = json.loads((out / "plan.json").read_text())["request"]["bind"]
    return found


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (["--bind", "batch=Symbol(divisor=8)"], "64..512../64"),
        (["--bind", "batch=64..512../64"], "64..512../64"),
        (["--bind", "batch=Symbol(divisor=8, max=32, min=9)"], "72..256/64"),
        (["--bind", "batch=Symbol(32, 1, 4, 2, True)"], "48..256/32+16"),
        (["--bind", "batch=Symbol(divisor=8)", "--dataset-strategy", "full_batch"], "8..64../8"),
        (["--bind", "batch=Symbol(divisor=8)", "--dataset-strategy", "((2,4),)"], "16..128../16"),
        (["--bind", "batch=Symbol(divisor=8)", "--phase", "infer"], "8..64../8"),
    ],
)
def test_the_split_of_the_dataset_multiplies(
    arguments: list[str], size: str, planner: Planner, dynamic_mlp: Path, tmp_path: Path
) -> None:
    assert bound(planner, dynamic_mlp, tmp_path, *arguments) == [["batch", size]]


def test_only_the_rows_are_split_under_data_parallel(planner: Planner, tmp_path: Path) -> None:
    text = MLP.replace("[ROWS, 256]", "[16, seq, 256]")
    (tmp_path / "mlp.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    arguments = ["--bind", "seq=Symbol(divisor=8)"]
    found = bound(planner, tmp_path / "mlp.onnx", tmp_path, *arguments)
    assert found == [["seq", "8..64../8"]]


def telling(tmp_path: Path, dim: str, said: str = "") -> Path:
    """A model whose rows are called so, with what its metadata say."""
    model = parser.parse_model(MLP)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = dim
    if said:
        model.metadata_props.add(key="bind", value=said)
    (tmp_path / "mlp.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "mlp.onnx"


@pytest.mark.parametrize(
    ("dim", "said", "arguments", "size"),
    [
        ("batch=Symbol(divisor=8)", "", [], "64..512../64"),
        ("batch=16..64/16", "", [], "16..64/16"),
        ("batch", "batch = Symbol(divisor=8, max=32)", [], "64..256/64"),
        ("batch=16..64/16", "batch=16..64/16", [], "16..64/16"),
        ("batch=16..64/16", "", ["--bind", "batch=32"], 32),
        ("batch=16..64/16", "", ["--bind", "batch=Symbol(divisor=8)"], "64..512../64"),
    ],
)
def test_the_model_itself_says_what_a_dimension_can_be(
    dim: str, said: str, arguments: list[str], size: object, planner: Planner, tmp_path: Path
) -> None:
    assert bound(planner, telling(tmp_path, dim, said), tmp_path, *arguments) == [["batch", size]]


@pytest.mark.parametrize(
    ("dim", "said", "words"),
    [
        ("batch=16..64/16", "batch=8..64/8", "dimension 'batch' is 8..64/8 and 16..64/16"),
        ("batch", "batch=many", "'batch=many' binds no dimension"),
        ("batch=Symbol(divisor=0)", "", "min and divisor are positive"),
        ("batch", "", "has no value"),
    ],
)
def test_a_model_that_says_nonsense_is_refused(
    dim: str, said: str, words: str, planner: Planner, tmp_path: Path
) -> None:
    run = planner("search", telling(tmp_path, dim, said), "--devices", "8", "-o", tmp_path / "p")
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert not (tmp_path / "p").exists()


def test_one_dimension_has_one_split(planner: Planner, tmp_path: Path) -> None:
    text = MLP.replace("[ROWS, 256] x", "[n, n, 256] x").replace("[ROWS, 256] y", "[n, n, 256] y")
    (tmp_path / "mlp.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    arguments = ["--devices", "8", "--bind", "n=Symbol(divisor=8)"]
    run = planner("search", tmp_path / "mlp.onnx", *arguments)
    assert run.code == 2
    assert "splits 'n' into 1 and 8 parts" in run.err


def test_numbers_ranges_and_symbols_stand_together() -> None:
    plain, symbols = split_symbols(
        ["seq=128, batch=Symbol(divisor=8, max=64),heads=4", "past=Symbol()"]
    )
    assert plain == ["seq=128,heads=4"]
    assert symbols == {"batch": LocalSymbol(divisor=8, max=64), "past": LocalSymbol()}
    assert str(LocalSymbol(divisor=8, unique=True)) == "Symbol(divisor=8, unique=True)"
    assert split_symbols(["batch=16..64/16"]) == (["batch=16..64/16"], {})


def test_an_open_symbol_has_eight_steps() -> None:
    assert str(LocalSymbol(divisor=8).whole(1)) == "8..64../8"
    assert str(LocalSymbol(divisor=8, remainder=3).whole(2)) == "22..134../16+6"
    assert str(LocalSymbol(divisor=8, min=100).whole(1)) == "100..160../8"


@pytest.mark.parametrize(
    "text",
    [
        "batch=Symbol(divisor=0)",
        "batch=Symbol(divisor=4, remainder=4)",
        "batch=Symbol(min=0)",
        "batch=Symbol(devisor=4)",
        "batch=Symbol(divisor=four)",
        "batch=Symbol(divisor=-4)",
        "batch=Symbol(divisor=True)",
        "batch=Symbol(1, 1, 1, 0, 1)",
        "batch=Symbol(divisor=99999999999999)",
    ],
)
def test_symbols_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="fix: write such as"):
        split_symbols([text])


@pytest.mark.parametrize(
    "texts",
    [
        ["batch=Symbol(divisor=8)", "batch=Symbol(divisor=4)"],
        ["batch=Symbol(divisor=8)", "batch=64"],
    ],
)
def test_a_dimension_is_bound_once(texts: list[str]) -> None:
    with pytest.raises(UserError, match="'batch' is bound twice"):
        split_symbols(texts)


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        ("batch=Symbol(max=9, min=8, divisor=5)", "no size from"),
        ("batch=Symbol((", "binds no dimension"),
        ("rows=Symbol(divisor=8)", "batch"),
    ],
)
def test_faults_are_told_and_nothing_is_written(
    bind: str, words: str, planner: Planner, dynamic_mlp: Path, tmp_path: Path
) -> None:
    run = planner("search", dynamic_mlp, "--devices", "8", "--bind", bind, "-o", tmp_path / "p")
    assert (run.code, run.out) == (2, "")
    assert words in run.err
    assert not (tmp_path / "p").exists()


def test_the_batch_of_a_step_binds_the_dimension_that_is_the_batch(
    planner: Planner, tmp_path: Path
) -> None:
    model = telling(tmp_path, "rows", "")
    assert bound(planner, model, tmp_path, "--batch", "32") == [["rows", 32]]
    facts = planner("inspect", model, "--batch", 48, "--json").json
    assert (facts["batch"], facts["dynamic_dims"][0]["value"]) == (48, 48)


def test_what_is_bound_counts_before_the_batch_of_a_step(planner: Planner, tmp_path: Path) -> None:
    model = telling(tmp_path, "rows", "")
    found = bound(planner, model, tmp_path, "--batch", "32", "--bind", "rows=16")
    assert found == [["rows", 16]]
