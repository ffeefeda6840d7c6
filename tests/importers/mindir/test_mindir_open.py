"""Open dimensions of MindIR: sizes by flag or from the file, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.facts import OpenDim
from importers.mindir.file import open_model
from importers.mindir.flattening import Flat, flattened
from importers.mindir.listing import listed_primitives
from importers.mindir.parsing import parsed
from importers.mindir.program import TensorType
from importers.mindir.reading import import_mindir, mindir_facts, told_ranges
from importers.mindir.sizes import OPEN, open_dimensions, sized
from importers.model_file import model_format
from ir.symbols import Symbol
from tests.importers.mindir.crafted import message

pytestmark = pytest.mark.fast

DATA = Path(__file__).parents[2] / "data" / "mindir"
OPEN_FILE = DATA / "open.mindir"


def flat(name: str) -> Flat:
    with open_model(DATA / f"{name}.mindir") as model:
        return flattened(parsed(model, name))


def opened(found: Flat, size: int) -> Flat:
    """The network as MindSpore writes it where this size, in front, is open."""

    def kind_of(kind: TensorType) -> TensorType:
        first, *rest = kind.dims or (0,)
        return replace(kind, dims=(OPEN, *rest)) if first == size else kind

    steps = [
        replace(step, results=tuple((v, k and kind_of(k)) for v, k in step.results))
        for step in found.steps
    ]
    inputs = {value: kind_of(kind) for value, kind in found.inputs.items()}
    return replace(found, inputs=inputs, steps=steps)


def dims_of(found: Flat) -> list[tuple[int, ...]]:
    return [kind.dims for step in found.steps for _, kind in step.results if kind is not None]


@pytest.mark.parametrize("name", ["mlp", "transformer", "residual"])
def test_sizes_follow_from_those_of_the_inputs(name: str) -> None:
    found = flat(name)
    rows = next(iter(found.inputs.values())).dims[0]
    told = opened(found, rows)
    bind = {each.name: rows for each in open_dimensions(told)}
    assert bind
    assert OPEN in {size for dims in dims_of(told) for size in dims}
    assert dims_of(sized(told, bind)) == dims_of(found)


@pytest.mark.parametrize("rows", [1, 8, 96])
def test_a_model_takes_the_size_that_is_bound(rows: int) -> None:
    graph = import_mindir(OPEN_FILE, {"x.0": rows})
    assert graph.tensors["x"].dims[0] == rows
    assert graph.symbols == {"x.0": rows}
    assert {graph.tensors[name].dims[0] for name in graph.outputs} == {rows}
    operands = [
        dims for each in listed_primitives(OPEN_FILE, {"x.0": rows}) for dims in each.operands
    ]
    assert OPEN not in {size for dims in operands for size in dims}


def test_a_range_gives_variants() -> None:
    graph = import_mindir(OPEN_FILE, {"x.0": Symbol(16, 64, 16)})
    assert graph.tensors["x"].dims[0] == 64
    assert {each.tensors["x"].dims[0] % 16 for each in graph.variants} == {0}


def test_facts_name_the_open_dimensions() -> None:
    assert mindir_facts(OPEN_FILE).open_dims == (OpenDim("x", 0, "x.0"),)
    assert [each.name for each in model_format(OPEN_FILE).facts(OPEN_FILE).open_dims] == ["x.0"]


def with_entry(tmp_path: Path, text: str) -> Path:
    entry = message("UserInfoEntry", key="bind", value=text)
    path = tmp_path / "told.mindir"
    path.write_bytes(OPEN_FILE.read_bytes() + message("ModelProto", user_info=[entry]))
    return path


def test_the_file_may_tell_its_symbols(tmp_path: Path) -> None:
    path = with_entry(tmp_path, "x.0 = Symbol(divisor=8, max=64)")
    assert told_ranges(path) == {"x.0": "Symbol(divisor=8, max=64)"}
    assert model_format(path).ranges(path, {"x.0"}) == {}
    assert told_ranges(OPEN_FILE) == {}


def test_an_entry_that_binds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="binds no dimension") as caught:
        told_ranges(with_entry(tmp_path, "x.0 is eight"))
    assert caught.value.where == "'bind' in the user_info of the model"


@pytest.mark.parametrize(
    ("bind", "what", "fix"),
    [
        ({}, "dimension 'x.0' has no value", "give your sizes, such as --bind x.0=16"),
        (
            {"rows": 8},
            "the model has no dynamic dimension 'rows'",
            "its dynamic dimensions are x.0",
        ),
        ({"x.0": 0}, "dimension 'x.0' is bound to 0", "bind it to a number from 1"),
    ],
)
def test_wrong_sizes_are_refused(bind: dict[str, int], what: str, fix: str) -> None:
    with pytest.raises(ModelError) as caught:
        import_mindir(OPEN_FILE, bind)
    assert caught.value.what == what
    assert caught.value.fix.startswith(fix)


def test_a_fixed_model_has_nothing_to_bind() -> None:
    with pytest.raises(ModelError, match="no dynamic dimension") as caught:
        import_mindir(DATA / "mlp.mindir", {"x.0": 8})
    assert caught.value.fix == "all its dimensions are fixed; leave --bind out"
