"""Every operation of the table computes what JAX computes.

The cases were run by JAX (`tests/data/jax/make.py`); here their text is imported and run operator
by operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from importers.stablehlo.parsing import parsed
from importers.stablehlo.reading import graph_of, program_of
from importers.stablehlo.table import CONTROL, TABLE
from ir.normalise import normalise, use_stored_statistics
from ir.ops import is_known
from tests.importers.imported import run_graph
from tests.importers.stablehlo.recorded import array_of, constants_of, recorded

CASES: Mapping[str, Mapping[str, Any]] = {case["name"]: case for case in recorded("operators")}
STEPS: Mapping[str, Mapping[str, Any]] = {case["name"]: case for case in recorded("training")}


def check(case: Mapping[str, Any]) -> None:
    program = program_of(case["text"], "case", case["name"])
    graph = use_stored_statistics(graph_of(program))
    assert [op.kind for op in graph.ops if not is_known(op.kind)] == []
    names = [given.name for given in program.signature.arguments]
    given = dict(zip(names, map(array_of, case["operands"]), strict=True))
    values = {n: a for n, a in given.items() if n in graph.tensors}
    found = run_graph(graph, values | constants_of(graph, program))
    for array, record in zip(found, case["results"], strict=True):
        expected = array_of(record)
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.fast(every=True)
@pytest.mark.parametrize("name", CASES)
def test_an_operation_computes_what_jax_computes(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_computes_what_jax_computes(name: str) -> None:
    check(STEPS[name])


@pytest.mark.parametrize("name", STEPS)
def test_gradients_belong_to_their_parameters(name: str) -> None:
    graph = graph_of(program_of(STEPS[name]["text"], "case", name))
    assert {graph.tensors[p].dims for p in graph.gradients}
    assert set(graph.gradients) == {t.name for t in graph.parameters}
    for parameter, slope in graph.gradients.items():
        assert graph.tensors[parameter].dims == graph.tensors[slope].dims


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "key_heads"), [("attention", 4), ("causal attention", 4), ("grouped attention", 2)]
)
def test_attention_is_one_operator(name: str, key_heads: int) -> None:
    graph = normalise(graph_of(program_of(CASES[name]["text"], "case", name)))
    (attention,) = (op for op in graph.ops if op.kind == "Attention")
    assert [graph.tensors[n].dims[1] for n in attention.inputs[:3]] == [4, key_heads, key_heads]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("layer norm", {"LayerNormalization"}), ("layer norm of squares", {"LayerNormalization"}),
        ("layer norm without shift", {"LayerNormalization"}), ("rms norm", {"RMSNormalization"}),
        ("softmax", {"Softmax"}), ("log softmax", {"LogSoftmax"}), ("gelu", {"Gelu"}),
        ("gelu tanh", {"Gelu"}), ("mean", {"ReduceMean"}), ("relu", {"Relu"}),
        ("lookup", {"Gather"}), ("take", {"Gather"}), ("argmax", {"ArgMax", "Cast"}),
    ],
)  # fmt: skip
def test_what_is_written_small_is_recognised(name: str, kinds: set[str]) -> None:
    graph = graph_of(program_of(CASES[name]["text"], "case", name))
    assert {op.kind for op in graph.ops} - {"Squeeze", "Reshape"} == kinds


def test_the_cases_call_most_of_the_table() -> None:
    called = {
        operation.name
        for case in (*CASES.values(), *STEPS.values())
        for function in parsed(case["text"], case["name"]).functions.values()
        for operation in function.operations
    }
    assert called - CONTROL <= set(TABLE)
