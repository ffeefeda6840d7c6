"""Every operator of the table computes what PyTorch computes, forward.

The cases were run by PyTorch (`tests/data/torch/make.py`); here their graphs are imported and run
operator by operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from importers.torch_export.aten import entry_of
from importers.torch_export.fx_program import fx_program
from importers.torch_export.reading import graph_at
from importers.traced.operations import FrontEnd, table
from ir.normalise import use_stored_statistics
from ir.ops import is_known
from tests.importers.imported import run_graph
from tests.importers.torch_export.recorded import array_of, constants_of, recorded

CASES: Mapping[str, Mapping[str, Any]] = {case["name"]: case for case in recorded("operators")}


@pytest.mark.fast
@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_pytorch_computes(name: str) -> None:
    case = CASES[name]
    program = fx_program(case["graph"], "case", name)
    graph = use_stored_statistics(graph_at(program, {}))
    assert [op.kind for op in graph.ops if not is_known(op.kind)] == []
    given = dict(zip(program.inputs, map(array_of, case["operands"]), strict=True))
    values = {n: a for n, a in given.items() if n in graph.tensors}
    found = run_graph(graph, values | constants_of(graph, program))
    for array, record in zip(found, case["results"], strict=True):
        expected = array_of(record)
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-5)


def test_the_cases_call_no_operator_that_the_table_lacks() -> None:
    targets = {
        node["target"]
        for case in CASES.values()
        for node in case["graph"]["nodes"]
        if node["op"] == "call_function" and node["target"].startswith(("aten.", "prims."))
    }
    lacking = {t for t in targets if entry_of(t) is None}
    assert {t for t in lacking if "._assert" not in t} == set()


def test_arguments_stand_where_pytorch_has_them() -> None:
    """What a line leaves out is at the end: arguments are bound by position too."""
    schemas = recorded("schemas")
    for target, entry in table(FrontEnd.ATEN).items():
        assert tuple(schemas[target])[: len(entry.parameters)] == entry.parameters, target
