"""The step with overlap: what windows take, and prices that bound it from below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.overlap import Layers, StepForm, layer_numbers
from ir.graph import OpGraph, Role
from tests.builders import mlp

pytestmark = pytest.mark.fast

forms = st.builds(
    StepForm,
    tiers=st.integers(1, 3),
    micro_batches=st.sampled_from([1, 2, 8]),
    is_steady=st.booleans(),
)
seeds = st.integers(0, 9999)
counts = st.integers(1, 5)


def drawn(form: StepForm, layers: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((layers, form.loads.count))


def chain(layers: int) -> Layers:
    return Layers(tuple(range(-1, layers - 1)))


def prices(form: StepForm, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(form.resources), size=len(form.windows))


@given(forms, counts, seeds)
def test_no_prices_count_more_than_the_step_takes(form: StepForm, layers: int, seed: int) -> None:
    loads = chain(layers).windows(form.loads, drawn(form, layers, seed))
    for number in range(3):
        weights = form.weights(prices(form, seed + number))
        assert (loads @ weights <= form.time_s(loads) * (1 + 1e-12)).all()


@given(forms, seeds)
def test_some_prices_count_as_much_as_the_step_takes(form: StepForm, seed: int) -> None:
    loads = drawn(form, 1, seed)[0]
    longest = form.windows_s(loads).argmax(axis=-1)
    weights = form.weights(np.eye(form.resources)[longest])
    assert loads @ weights == pytest.approx(float(form.time_s(loads)))


@given(forms, counts, seeds)
def test_loads_count_the_same_by_layer_and_by_window(
    form: StepForm, layers: int, seed: int
) -> None:
    own, at = chain(layers), form.loads
    loads = drawn(form, layers, seed)
    each = np.array([form.weights(prices(form, seed + layer)) for layer in range(layers)])
    by_layer = float((own.weights(at, each) * loads).sum())
    assert by_layer == pytest.approx(float((each * own.windows(at, loads)).sum()))


@given(forms, counts, seeds)
def test_a_load_more_never_shortens_the_step(form: StepForm, layers: int, seed: int) -> None:
    own, loads = chain(layers), drawn(form, layers, seed)
    base = form.time_s(own.windows(form.loads, loads)).sum()
    for layer, column in np.ndindex(loads.shape):
        more = loads.copy()
        more[layer, column] += 1.0
        assert form.time_s(own.windows(form.loads, more)).sum() >= base - 1e-9


def test_the_first_layer_hides_nothing_and_the_last_is_gathered_again_beside_its_forward_pass() -> (
    None
):
    form = StepForm(1)
    at, loads = form.loads, np.zeros((3, StepForm(1).loads.count))
    for columns in (at.gather, at.again, at.sync, at.updated):
        loads[:, columns] = [[1.0], [10.0], [100.0]]
    found = chain(3).windows(at, loads)
    assert found[:, at.gather].ravel().tolist() == [10.0, 100.0, 100.0]
    assert found[:, at.sync].ravel().tolist() == [10.0, 100.0, 0.0]
    assert found[:, at.again].ravel().tolist() == [0.0, 1.0, 10.0]


def test_what_is_sent_once_in_a_step_counts_by_its_share() -> None:
    form = StepForm(1, micro_batches=4)
    loads = np.zeros(form.loads.count)
    loads[form.loads.BACKWARD], loads[form.loads.sync] = 1.0, 5.0
    assert float(form.time_s(loads)) == pytest.approx(0.75 * 1.0 + 0.25 * 5.0)
    assert float(StepForm(1, 4, is_steady=True).time_s(loads)) == 1.0


def scoped(scopes: list[str]) -> OpGraph:
    graph = mlp(len(scopes) // 2 + 1)
    pairs = zip(graph.ops, scopes, strict=False)
    return graph.with_ops(replace(op, scope=scope) for op, scope in pairs)


@pytest.mark.parametrize(
    ("scopes", "layers"),
    [
        (["embed", "h.0", "h.0.mlp", "h.1", "h.2", "head"], (0, 0, 0, 1, 2, 3)),
        (["a.0", "glue", "a.0", "a.1", "glue", "a.2"], (0, 0, 0, 1, 1, 2)),
        (["a", "b", "c"], (0, 0, 0)),
    ],
)
def test_layers_are_told_by_their_scopes(scopes: list[str], layers: tuple[int, ...]) -> None:
    graph = scoped(scopes)
    assert layer_numbers(graph.ops, graph.tensors) == layers


def test_without_scopes_layers_have_alike_many_bytes_of_parameters() -> None:
    graph = mlp(64, batch=8, width=4096, hidden=4096)
    found = layer_numbers(graph.ops, graph.tensors)
    assert list(found) == sorted(found)
    bytes_of = np.zeros(found[-1] + 1)
    for op, layer in zip(graph.ops, found, strict=True):
        own = (graph.tensors[name] for name in op.inputs)
        bytes_of[layer] += sum(t.nbytes for t in own if t.role is Role.PARAMETER)
    assert bytes_of[:-1].max() <= 1.2 * bytes_of[:-1].min()
