"""Every primitive of the recorded cases computes what MindSpore computes, forward.

The cases were run by MindSpore (`tests/mindspore_package/write_mindir.py`); here their files are
imported and run operator by operator.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executors.placement import Array
from importers.mindir.reading import constant_values, import_mindir, mindir_facts
from importers.traced.operations import FrontEnd, table
from ir.graph import Role
from ir.normalise import use_stored_statistics
from ir.ops import is_known
from tests.importers.imported import run_graph

DATA = Path(__file__).parents[2] / "data" / "mindir"


def _recorded() -> Mapping[str, Mapping[str, Any]]:
    text = gzip.decompress((DATA / "operators.json.gz").read_bytes())
    return {case["name"]: case for case in json.loads(text)}


CASES = _recorded()


def array_of(record: Mapping[str, Any]) -> Array:
    return np.array(record["values"], dtype=record["dtype"]).reshape(record["shape"])


def written(name: str, folder: Path) -> Path:
    path = folder / "case.mindir"
    path.write_bytes(base64.b64decode(CASES[name]["file"]))
    return path


@pytest.mark.fast(every=True)
@pytest.mark.parametrize("name", CASES)
def test_a_primitive_computes_what_mindspore_computes(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    graph = use_stored_statistics(import_mindir(path))
    assert [op.kind for op in graph.ops if not is_known(op.kind)] == []
    if CASES[name]["results"] is None:
        return  # MindSpore has it for Ascend only; the sizes it notes are those of the graph
    given = dict(zip(graph.inputs, map(array_of, CASES[name]["operands"]), strict=True))
    stored = [n for n, t in graph.tensors.items() if t.role is not Role.ACTIVATION]
    values = constant_values(path, [n for n in stored if n not in given])
    found = run_graph(graph, {n: a for n, a in given.items() if n in graph.tensors} | values)
    for array, record in zip(found, CASES[name]["results"], strict=True):
        expected = array_of(record)
        assert array.shape == expected.shape
        np.testing.assert_allclose(array, expected, rtol=2e-4, atol=2e-5)


def test_the_cases_have_no_primitive_that_the_table_lacks(tmp_path: Path) -> None:
    kinds = {k for name in CASES for k in mindir_facts(written(name, tmp_path)).kinds}
    assert {k for k in kinds if k not in table(FrontEnd.MINDIR)} == set()
    assert len(kinds) > 100


def _attended(query: Array, key: Array, value: Array, hidden: Array | None) -> Array:
    """Attention by its definition, scaled by a half."""
    scores = 0.5 * np.einsum("bhik,bhjk->bhij", query, key)
    if hidden is not None:
        scores = np.where(hidden, -np.inf, scores)
    chances = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(np.einsum("bhij,bhjk->bhik", chances / chances.sum(-1, keepdims=True), value))


def _computed(name: str, folder: Path, operands: list[Array]) -> Array:
    graph = import_mindir(written(name, folder))
    return run_graph(graph, dict(zip(graph.inputs, operands, strict=True)))[-1]


@pytest.mark.fast
def test_attention_hides_what_the_mask_marks(tmp_path: Path) -> None:
    """MindSpore runs it on Ascend only: the definition takes its place."""
    operands = [array_of(r) for r in CASES["FlashAttentionScore"]["operands"]]
    operands[3] = np.triu(np.ones((6, 6), bool), 1)
    found = _computed("FlashAttentionScore", tmp_path, operands)
    query, key, value, hidden = operands
    np.testing.assert_allclose(found, _attended(query, key, value, hidden), atol=1e-5)


def test_attention_with_merged_heads(tmp_path: Path) -> None:
    operands = [array_of(r) for r in CASES["FlashAttentionScore merged"]["operands"]]
    found = _computed("FlashAttentionScore merged", tmp_path, operands)
    query, key, value = (t.reshape(2, 6, 4, 8).transpose(0, 2, 1, 3) for t in operands)
    wanted = _attended(query, key, value, None).transpose(0, 2, 1, 3).reshape(2, 6, 32)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
