"""States of conventional layouts by the one table of bytes, for every optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from costmodel.memory import MASTER_BYTES, Optimizer, moment_elements, parameter_bytes
from costmodel.training.calibration import general_constants, parse_calibration
from costmodel.training.constants import StepConstants
from costmodel.training.layers import (
    dense_products,
    expert_products,
    inward_products,
    outward_products,
)
from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.records import TrainingModel, TrainingRun
from costmodel.training.sizes import active_parameters, dense_share, routed_share
from costmodel.training.states import orthogonalise_s, update_bytes
from costmodel.training.step import times_in_turn
from costmodel.training.table import RunTable
from importers.errors import ModelError
from importers.sizes import configuration, published_names
from planner.requests.errors import UserError
from planner.requests.training_models import training_model
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run
from tests.importers.mixed_configurations import (
    NEMOTRON_3_NANO,
    NEMOTRON_3_SUPER,
    NEMOTRON_3_ULTRA,
)

pytestmark = pytest.mark.fast

EVERY = list(Optimizer)
BARE = MemoryConstants(context_bytes=0.0)


def by(optimizer: Optimizer, model: TrainingModel = LLAMA, **layout: int) -> TrainingRun:
    return replace(run(model, "a100-80g", **layout), optimizer=optimizer)


def published_models() -> Iterator[TrainingModel]:
    """All that are laid out by their sizes."""
    for name in published_names():
        try:
            yield training_model(configuration(name), name)[0]
        except (UserError, ModelError):
            continue
    for config in (NEMOTRON_3_NANO, NEMOTRON_3_SUPER, NEMOTRON_3_ULTRA):
        yield training_model(config, "mixed")[0]


def test_products_have_every_matrix_that_a_token_meets() -> None:
    """What a layer multiplies is what it holds, element by element, the choice of experts too."""
    models = list(published_models())
    assert any(model.kv_rank for model in models)
    assert any(model.expert_hidden for model in models)
    table = RunTable.of([replace(run(model), flags=frozenset({"alone"})) for model in models])
    own = np.ones_like(table.hidden)
    parts = (
        (inward_products(table), own),
        (outward_products(table), own),
        (dense_products(table), dense_share(table)),
        (expert_products(table), routed_share(table)),
    )
    met = sum(e.rows * e.n * e.k * e.number * share for each, share in parts for e in each)
    tokens = table.micro_batch * table.seq_len
    assert met / tokens == pytest.approx(active_parameters(table), rel=1e-12)


def shapes(model: TrainingModel) -> Iterator[tuple[tuple[int, ...], int]]:
    """Dims of the parameters of a model of Llama's form, and how many there are."""
    heads, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    layers = model.layers
    yield (model.hidden, heads), layers
    yield (model.hidden, keys), 2 * layers
    yield (heads, model.hidden), layers
    yield (model.hidden, model.ffn), (1 + model.gated) * layers
    yield (model.ffn, model.hidden), layers
    yield (model.hidden,), 2 * layers


@pytest.mark.parametrize("optimizer", EVERY)
@pytest.mark.parametrize("model", [LLAMA, GPT, replace(LLAMA, kv_heads=8)])
def test_states_are_those_of_every_parameter_in_the_table(
    optimizer: Optimizer, model: TrainingModel
) -> None:
    parts = [(dims, count, True) for dims, count in shapes(model)]
    parts.append(((model.vocab, model.hidden), 2 - model.tied, False))
    expected = sum(
        count
        * math.prod(dims)
        * parameter_bytes("bfloat16", optimizer, training=True, dims=dims, inside=inside).states
        for dims, count, inside in parts
    )
    use = memory_use(RunTable.of([by(optimizer, model)]), BARE)
    assert use.optimizer[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("optimizer", EVERY)
def test_states_of_experts_are_those_of_their_matrices(optimizer: Optimizer) -> None:
    dims = (ROUTED.hidden, ROUTED.expert_ffn)
    few, more = (
        memory_use(RunTable.of([by(optimizer, replace(ROUTED, layers=n))]), BARE).optimizer[0]
        for n in (2, 3)
    )
    dense = replace(ROUTED, experts=0, expert_ffn=0, ffn=0)
    rest = [
        memory_use(RunTable.of([by(optimizer, replace(dense, layers=n))]), BARE).optimizer[0]
        for n in (2, 3)
    ]
    router = (ROUTED.hidden, ROUTED.experts)
    each = {
        size: parameter_bytes("bfloat16", optimizer, training=True, dims=size).states
        for size in (dims, router)
    }
    expected = 24 * math.prod(dims) * each[dims] + math.prod(router) * each[router]
    assert (more - few) - (rest[1] - rest[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_runs_of_all_optimizers_in_one_table_are_priced_as_alone() -> None:
    runs = [by(o, m, tp=2, zero_stage=z) for o in EVERY for m in (LLAMA, ROUTED) for z in (0, 3)]
    together, constants = RunTable.of(runs), general_constants()
    memory, times = memory_use(together, BARE), times_in_turn(together, constants)
    for number, each in enumerate(runs):
        alone = RunTable.of([each])
        assert memory.total[number] == pytest.approx(memory_use(alone, BARE).total[0], rel=1e-12)
        step = times_in_turn(alone, constants)
        assert times.optimizer[number] == pytest.approx(step.optimizer[0], rel=1e-12)


def test_states_on_the_host_cross_twice() -> None:
    """12 bytes of master copy and moments with Adam, as much less as an optimizer keeps less."""
    moved, states = update_bytes(RunTable.of([by(o) for o in EVERY]), StepConstants().updated)
    known = dict(zip(EVERY, states.dense.tolist(), strict=True))
    assert known[Optimizer.ADAMW] == MASTER_BYTES + 8
    assert known[Optimizer.SGD] == MASTER_BYTES
    assert known[Optimizer.NONE] == 0
    assert MASTER_BYTES + 4 < known[Optimizer.MUON] < MASTER_BYTES + 8
    assert moved.dense[EVERY.index(Optimizer.ADAMW)] == 34


def test_muon_multiplies_the_matrices_inside_a_network() -> None:
    """The products of two matrices n x n take twelve times n x n x n operations a step and more."""
    constants = general_constants()
    others = RunTable.of([by(o) for o in EVERY if o is not Optimizer.MUON])
    nothing = np.zeros_like(others.tp) + 1.0
    assert not orthogonalise_s(others, constants, (nothing, nothing)).any()
    table = RunTable.of([by(Optimizer.MUON, replace(LLAMA, layers=n)) for n in (1, 2)])
    ways = np.ones_like(table.tp)
    one, two = orthogonalise_s(table, constants, (ways, ways))
    assert two == pytest.approx(2 * one)
    square, long = 4 * 6 * 4096**3, 3 * (4 * 4096**2 * 11008 + 2 * 4096**3)
    least = 5 * (square + long) / (table.machine.flops16[0] * constants.matmul)
    assert least <= one <= 1.5 * least
    halved = orthogonalise_s(table, constants, (2 * ways, ways))
    assert halved == pytest.approx(np.array([one, two]) / 2)


def test_calibrations_of_earlier_versions_say_the_same() -> None:
    """Their bytes of master copy and both moments are those of two moments and the copy."""
    text = "families: {}\ninterval: {}\nmemory:\n  mine: {gradient_bytes: 2.0, "
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("costmodel.training.calibration.known_families", dict)
        old, new = (
            parse_calibration(f"{text}{field}}}\n").memory_of("mine")
            for field in ("state_bytes: 12.0", "moment_bytes: 4.0")
        )
    assert old == new


def test_a_factored_moment_is_a_sliver() -> None:
    assert moment_elements(Optimizer.ADAFACTOR, (4096, 4096)) < 1e-3
