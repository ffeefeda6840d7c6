"""What the benchmark reads of MindSpore: its networks as graphs, its log, its strategies."""

from __future__ import annotations

import pytest

from benchmarks.mindspore_graphs import GRAPHS
from benchmarks.mindspore_runs import by_operator, searched
from ir.mindspore_forms.primitives import primitive_form
from ir.ops import OpView, lookup

pytestmark = pytest.mark.fast

LOG = """\
[INFO] Now leaving step auto parallel, used time: 5 us
[INFO] Now entering step auto parallel
[INFO] more
[INFO] x.cc:250] StepAutoParallel] Now leaving step auto parallel, used time: 45291 us
[INFO] Now leaving step auto parallel, used time: 13 us
"""


@pytest.mark.parametrize(
    ("name", "layers", "operators"), [("mlp", 3, 6), ("tf", 2, 50), ("resnet50", 0, 175)]
)
def test_the_graphs_have_as_many_operators_as_mindspore_gives_a_strategy(
    name: str, layers: int, operators: int
) -> None:
    """Counted in the strategies of MindSpore 2.10.0, the input's left out."""
    graph = GRAPHS[name](layers)
    forms = [
        primitive_form(OpView(o, graph), lookup(o.kind).rule(OpView(o, graph))) for o in graph.ops
    ]
    assert sum(bool(form.name) for form in forms) == operators


def test_the_longest_search_of_a_log_counts() -> None:
    assert searched(LOG) == {"search_s": 0.045291, "search_lines": 2, "lines": 5}


def test_operators_of_one_name_are_read_in_both_orders() -> None:
    found = {
        "Default/_VirtualDataset-op0": [[1, 1]],
        **{f"Default/ls-CellList/{i}-Linear/MatMul-op0": [[8, 1], [1, 1]] for i in range(3)},
        **{f"Default/ReLU-op{i}": [[2**i, 1]] for i in range(3)},
    }
    first, second = by_operator(GRAPHS["mlp"](3), found)
    assert [first[f"Relu_{i}"] for i in (1, 3, 5)] == [((1, 1),), ((2, 1),), ((4, 1),)]
    assert [second[f"Relu_{i}"] for i in (1, 3, 5)] == [((4, 1),), ((2, 1),), ((1, 1),)]
    assert first["MatMul_0"] == second["MatMul_0"] == ((8, 1), (1, 1))


def test_equal_orders_are_read_once() -> None:
    found = {
        **{f"Default/ls-CellList/{i}-Linear/MatMul-op0": [[8, 1], [1, 1]] for i in range(3)},
        **{f"Default/ReLU-op{i}": [[8, 1]] for i in range(3)},
    }
    assert len(list(by_operator(GRAPHS["mlp"](3), found))) == 1


def test_an_operator_that_the_graph_lacks_is_not_passed_over() -> None:
    found = {
        **{f"Default/ls-CellList/{i}-Linear/MatMul-op0": [[8, 1], [1, 1]] for i in range(3)},
        **{f"Default/ReLU-op{i}": [[8, 1]] for i in range(4)},
    }
    with pytest.raises(SystemExit, match="lacks"):
        list(by_operator(GRAPHS["mlp"](3), found))
