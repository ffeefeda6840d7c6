"""Sizes that an ONNX file leaves open: how they are named, asked for and bound."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from importers.errors import UnboundError
from importers.onnx import import_onnx
from importers.onnx_constants import model_values
from planner.requests.option_texts import bindings
from tests.importers.imported import model_of
from tests.importers.onnx_models import imported, kinds, model, node, refusal, value

pytestmark = pytest.mark.fast

LOOP = """(float[2,24] x, int64 n) => (y) <bool on = {1}> {
    y = Loop(n, on, ) <body = rounds (int64 i, bool go) => (bool again, float[2,24] row) {
        again = Identity(go)
        row = Relu(x)
    }>
}"""
GROWING = """(float[2,24] x, int64 n) => (z) <bool on = {1}> {
    y = Loop(n, on, x) <
        body = rounds (int64 i, bool go, float[A,24] a) => (bool again, float[B,24] b) {
            again = Identity(go)
            b = Concat<axis=0>(a, x)
        }>
    z = Neg(y)
}"""
BRANCHES = """(float[2,24] x, bool large) => (y) {
    z = If(large) <
        then_branch = twice () => (float[4,24] t) {t = Concat<axis=0>(x, x)},
        else_branch = once () => (float[2,24] e) {e = Relu(x)}>
    y = Neg(z)
}"""


def pasted_sizes(text: str) -> dict[str, int]:
    """What the option at the end of a message binds."""
    found = bindings([text.partition("--bind ")[2]])
    return {name: size for name, size in found.items() if isinstance(size, int)}


def opened(*dims: list[int | str | None]) -> onnx.ModelProto:
    """A product of tensors of which every `None` is -1."""
    given = dict(zip(("x", "w"), dims, strict=True))
    made = model([node("MatMul", ["x", "w"], ["y"])], given, {"y": None})
    for each in made.graph.input:
        for dim in each.type.tensor_type.shape.dim:
            if dim.WhichOneof("value") is None:
                dim.dim_value = -1
    return made


@pytest.mark.parametrize("dims", [([None, 8], [8, 4]), (["?", 8], [8, 4]), (["-1", 8], [8, 4])])
def test_minus_one_and_a_question_mark_are_open_sizes(
    tmp_path: Path, dims: tuple[list[int | str | None], ...]
) -> None:
    assert "--bind x.0=" in refusal(tmp_path, opened(*dims)).fix
    assert imported(tmp_path, opened(*dims), {"x.0": 6}).tensors["y"].dims == (6, 4)


def test_two_question_marks_are_two_sizes(tmp_path: Path) -> None:
    made = opened(["?", 8], [8, "?"])
    assert imported(tmp_path, made, {"x.0": 6, "w.1": 3}).tensors["y"].dims == (6, 3)


def test_every_missing_size_is_asked_for_at_once_and_the_answer_can_be_pasted(
    tmp_path: Path,
) -> None:
    made = opened(["rows", "?"], [None, "columns"])
    error = refusal(tmp_path, made)
    assert isinstance(error, UnboundError)
    assert list(error.sizes) == ["rows", "x.1", "w.0", "columns"]
    assert imported(tmp_path, made, pasted_sizes(error.fix)).tensors["y"].dims == (16, 16)


def test_a_made_name_needs_no_quotes_and_differs_from_those_in_the_file(tmp_path: Path) -> None:
    made = model(
        [node("Add", ["x y$", "x_y_"], ["z"])],
        {"x y$": ["?", 4], "x_y_": ["x_y_.0", 4]},
        {"z": None},
    )
    error = refusal(tmp_path, made)
    assert isinstance(error, UnboundError)
    assert error.fix.endswith("--bind x_y_.0_=16,x_y_.0=16")


def test_a_short_signal_of_two_dimensions_is_a_signal(tmp_path: Path) -> None:
    text = (
        "(float[2,24{last}] x, float[8] w) => (y) <int64 step = {{4}}, int64 n = {{8}}> "
        "{{y = STFT(x, step, w, n)}}"
    )
    flat, full = (model_of(text.format(last=last), 17) for last in ("", ",1"))
    assert kinds(imported(tmp_path, flat)) == ["Unsqueeze", "STFT"]
    assert imported(tmp_path, flat).tensors["y"] == imported(tmp_path, full).tensors["y"]


@pytest.mark.parametrize(
    ("text", "named", "offers"),
    [
        (LOOP, "'n'", ("--bind n=16", "--bind y.0=16")),
        (GROWING, "'n'", ("--bind y.0=16",)),
        (BRANCHES, "'large'", ("--bind large=true", "--bind z.0=16")),
    ],
)
def test_what_decides_a_size_of_the_run_is_said_and_may_be_bound(
    tmp_path: Path, text: str, named: str, offers: tuple[str, ...]
) -> None:
    made = model_of(text)
    error = refusal(tmp_path, made)
    assert named in error.where
    assert error.fix.count("--bind") == len(offers)
    for offer in offers:
        assert offer in error.fix
        imported(tmp_path, made, pasted_sizes(offer))


def test_a_bound_value_decides_rounds_and_branches(tmp_path: Path) -> None:
    assert imported(tmp_path, model_of(LOOP), {"n": 5}).tensors["y"].dims == (5, 2, 24)
    assert imported(tmp_path, model_of(GROWING), {"y.0": 12}).tensors["z"].dims == (12, 24)
    for large, kind in ((True, "Concat"), (False, "Relu")):
        assert kinds(imported(tmp_path, model_of(BRANCHES), {"large": large})) == [kind, "Neg"]
        assert model_values(model_of(BRANCHES), ["y"], {"large": large}) == {}


def test_what_a_loop_hands_on_unchanged_keeps_its_size(tmp_path: Path) -> None:
    made = model_of(GROWING.replace("Concat<axis=0>", "Add").replace("[B,", "[A,"))
    assert imported(tmp_path, made).tensors["z"].dims == (2, 24)


def test_a_size_that_follows_from_others_is_not_bound_in_silence(tmp_path: Path) -> None:
    made = model_of(LOOP)
    assert "'y.0'" in refusal(tmp_path, made, {"n": 5, "y.0": 7}).what
    assert "'q.0'" in refusal(tmp_path, made, {"n": 5, "q.0": 7}).what


def test_an_inner_size_without_a_note_may_be_bound(tmp_path: Path) -> None:
    made = model(
        [node("NonZero", ["x"], ["n"]), node("Neg", ["n"], ["y"])], {"x": [4]}, {"y": None}
    )
    assert "--bind n.1=" in refusal(tmp_path, made).fix
    assert imported(tmp_path, made, {"n.1": 3}).tensors["y"].dims == (1, 3)
    made.graph.value_info.append(value("n", [1, "?"], onnx.TensorProto.INT64))
    path = tmp_path / "noted.onnx"
    path.write_bytes(made.SerializeToString())
    assert import_onnx(path, {"n.1": 3}).tensors["y"].dims == (1, 3)
