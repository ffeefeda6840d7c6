"""Strategies out of the text of a graph that MindSpore compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.checkpoint_import import pins_of_operators
from exporters.mindspore.compiled_graph import from_graph
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyItem
from exporters.mindspore.strategy_files import read_strategies
from importers.mindir.listing import listed_primitives
from importers.mindir.reading import import_mindir
from ir.file_primitives import FilePrimitive
from ir.graph import Op, OpGraph, Role, Tensor
from tests.importers.mindir.crafted import model, shape, written
from tests.importers.mindir.crafted import node as node_of

pytestmark = pytest.mark.fast

HEAD = """# IR entry: @1_main
%para1_x: <Tensor[Float32], (256, 784)> : [256, 784]
subgraph @1_main() {
  %0(CNode_30) = _VirtualDataset(%para1_x) primitive_attrs: {in_strategy: ((8, 1))} \
{in_strategy: ((8, 1))}
      : (<Tensor[Float32], (256, 784)>) -> (<Tuple[Tensor[Float32]], TupleShape((256, 784))>)
      # Scope: (Default)
"""


def node(number: int, kind: str, strategy: str, scope: str, *, full: bool = False) -> str:
    label = "Fullname with scope" if full else "Scope"
    return (
        f"  %{number}(x) = PrimFunc_{kind}(%0, Bool(0)) {{instance name: a}} primitive_attrs: "
        f'{{in_strategy: {strategy}, mirror_user_id: "w"}}\n'
        "      : (<Tensor[Float32], (256, 784)>) -> (<Tensor[Float32], (256, 512)>)\n"
        f"      # {label}: ({scope})\n"
    )


def found(text: str) -> dict[str, tuple[tuple[int, ...], ...]]:
    return {item.key: item.cuts for item in from_graph(text).strategies}


def test_operators_of_a_kind_are_numbered_in_their_cell() -> None:
    cell = "Default/network-Net/up-Dense"
    text = HEAD + node(1, "MatMul", "((1, 1), (8, 1))", cell)
    text += node(2, "MatMul", "((8, 1), (1, 1))", cell) + node(3, "ReLU", "((1, 8))", cell)
    assert found(text) == {
        "Default/_VirtualDataset-op0": ((8, 1),),
        f"{cell}/MatMul-op0": ((1, 1), (8, 1)),
        f"{cell}/MatMul-op1": ((8, 1), (1, 1)),
        f"{cell}/ReLU-op0": ((1, 8),),
    }


def test_operators_without_a_strategy_are_counted() -> None:
    """Else those behind them would have other names than in MindSpore."""
    cell = "Default/network-Net"
    bare = node(1, "Reshape", "((8, 1))", cell).replace("in_strategy", "gen")
    text = HEAD + bare + node(2, "Reshape", "((8, 1))", cell)
    assert f"{cell}/Reshape-op1" in found(text)


def test_a_full_name_is_taken_where_it_is_told() -> None:
    name = "Default/network-Net/Add-op7"
    assert name in found(HEAD + node(1, "Add", "((8, 1), ())", name, full=True))


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("((8, 1), (1), ())", ((8, 1), (1,), ())),
        ("((I64(8), I64(1)))", ((8, 1),)),
        ("((8,), (1,))", ((8,), (1,))),
    ],
)
def test_tuples_are_read_as_each_release_writes_them(
    text: str, cuts: tuple[tuple[int, ...], ...]
) -> None:
    assert found(HEAD + node(1, "Mul", text, "Default"))["Default/Mul-op0"] == cuts


def test_a_graph_without_strategies_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "21_validate.ir"
    path.write_text("# IR entry: @1_main\n")
    with pytest.raises(StrategyFileError, match="no operator of the graph has a strategy"):
        read_strategies(path)


def test_the_suffix_tells_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "step_parallel_end_0132.ir"
    path.write_text(HEAD)
    assert isinstance(read_strategies(path), OperatorStrategies)


def test_a_primitive_that_is_a_product_with_what_it_reads_is_cut_alike(tmp_path: Path) -> None:
    """`Square` and `SiLU` have one operand in the file, and two where they are products."""
    nodes = [node_of("SiLU", ["x"], "h", shape(4, 8)), node_of("Square", ["h"], "y", shape(4, 8))]
    path = written(tmp_path, model(nodes))
    primitives = listed_primitives(path)
    items = tuple(StrategyItem(each.name, 0, ((4, 2),)) for each in primitives)
    made = pins_of_operators(import_mindir(path), OperatorStrategies(items), primitives, 8)
    assert [each.kind for each in primitives] == ["SiLU", "Square"]
    assert set(made.pins.values()) == {((4, 2), (4, 2))}
    partly = [replace_items(items, compiled) for compiled in (False, True)]
    notes = [pins_of_operators(import_mindir(path), p, primitives, 8).notes for p in partly]
    assert [len(each) for each in notes] == [1, 0]  # a graph is no file that MindSpore loads


def replace_items(items: tuple[StrategyItem, ...], compiled: bool) -> OperatorStrategies:
    return OperatorStrategies(items[:1], is_compiled=compiled)


def test_names_that_are_counted_in_another_order_are_told_by_dimensions() -> None:
    """The first of its kind has two dimensions, the key of that name three."""
    dims = {"x": (4, 8), "y": (2, 4, 8)}
    tensors = {name: Tensor(name, own, "float32", Role.INPUT) for name, own in dims.items()}
    for number, own in enumerate(dims.values()):
        tensors[f"r{number}"] = Tensor(f"r{number}", own, "float32", Role.ACTIVATION)
    names = ("Default/ReLU-op0", "Default/ReLU-op1")
    ops = tuple(
        Op(n, "Relu", (x,), (f"r{i}",), {})
        for i, (n, x) in enumerate(zip(names, dims, strict=True))
    )
    graph = OpGraph("net", tensors, ops, tuple(dims), ("r0", "r1"))
    primitives = [
        FilePrimitive(n, "ReLU", (dims[x],), (x,)) for n, x in zip(names, dims, strict=True)
    ]
    items = (StrategyItem(names[0], 0, ((1, 4, 2),)), StrategyItem(names[1], 0, ((2, 4),)))
    made = pins_of_operators(graph, OperatorStrategies(items), primitives, 8)
    assert made.pins == {names[0]: ((2, 4),), names[1]: ((1, 4, 2),)}
