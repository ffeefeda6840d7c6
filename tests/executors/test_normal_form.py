"""The normal form computes what the imported operators do."""

from __future__ import annotations

import numpy as np
import pytest

from executors.evaluation import Evaluator
from executors.placement import Array
from executors.values import numbers
from executors.verdict import run_whole
from ir.graph import OpGraph, Role
from ir.normalise import add_ends, normalise
from tests.ir.blocks import Form, block

pytestmark = pytest.mark.fast

FORMS = (
    Form(),
    Form(scale="scores mul"),
    Form(scale="operands"),
    Form(scale="none"),
    Form(mask="add"),
    Form(mask="batch"),
    Form(mask="where"),
    Form(guard=True),
    Form(cast=True),
    Form(dropout=True),
    Form(key_heads=2),
    Form(keys_outside=True),
    Form(key_heads=1, mask="add", scale="operands"),
)


def given(graph: OpGraph) -> dict[str, Array]:
    """Noise, and constants that mean what their names say."""
    names = [t.name for t in graph.tensors.values() if t.role is not Role.ACTIVATION]
    values = numbers(graph, names, {})
    for name, array in values.items():
        if name.startswith("root"):
            values[name] = np.asarray(1.7)
        elif name == "zero":
            values[name] = np.asarray(0.0)
        elif name == "lowest":
            values[name] = np.asarray(-1e9)
        elif name == "seen":
            values[name] = np.tril(np.ones(array.shape, dtype=np.bool_))
    return values


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_block_in_normal_form_computes_the_same(form: Form) -> None:
    graph = block(form)
    values, normal = given(graph), normalise(graph)
    wanted, left = run_whole(add_ends(graph, training=False), values, Evaluator())
    found, out = run_whole(add_ends(normal, training=False), values, Evaluator())
    assert not left
    assert not out
    assert any(op.kind == "Attention" for op in normal.ops) != form.keys_outside
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12)
