"""Layers that mix tokens without softmax: operations counted on the algorithms themselves, laws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from costmodel.training.calibration import neighbours_of
from costmodel.training.constants import StepConstants
from costmodel.training.layers import layer_times
from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import LayoutError, Recompute, TrainingModel
from costmodel.training.rows import read_row
from costmodel.training.sizes import mixer_inward, model_flops, model_parameters
from costmodel.training.stacks import software_flags
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from planner.requests.training_models import training_model
from planner.whatif.layouts import rows_of
from tests.costmodel.simulation.runs import DELTA, DENSE, LLAMA, ROUTED, STATES, small_run
from tests.costmodel.training.test_rows import ROW
from tests.importers.mixed_configurations import NANO_PATTERN, NEMOTRON_3_NANO, QWEN3_NEXT

Matrix = NDArray[np.float64]
SIZES = {
    MixerKind.MAMBA2: Mixer(MixerKind.MAMBA2, 4, 4, 2, 6, 5, chunk=4),
    MixerKind.LIGHTNING: Mixer(MixerKind.LIGHTNING, 4, 3, 3, 5, 5, convolution=0, chunk=4),
    MixerKind.GATED_DELTA: Mixer(MixerKind.GATED_DELTA, 4, 4, 2, 6, 5, chunk=4),
    MixerKind.KIMI_DELTA: Mixer(MixerKind.KIMI_DELTA, 4, 4, 4, 5, 5, chunk=4, rank=5),
    MixerKind.MAMBA: Mixer(MixerKind.MAMBA, 4, 40, 1, 4, 1, rank=3),
}


@dataclass(slots=True)
class Counted:
    """Products that count their operations."""

    flops: float = 0.0

    def times(self, left: Matrix, right: Matrix) -> Matrix:
        self.flops += 2.0 * left.shape[0] * left.shape[1] * right.shape[1]
        return left @ right

    def inverse(self, lower: Matrix) -> Matrix:
        """Of a triangle: n^3 / 3 operations (LAPACK's dtrtri, without lower terms)."""
        self.flops += len(lower) ** 3 / 3.0
        return np.asarray(np.linalg.inv(lower), dtype=np.float64)


def decayed(decay: Matrix) -> Matrix:
    """What is left at each token of what came at each one before it."""
    total = np.cumsum(np.log(decay))
    return np.tril(np.exp(total[:, None] - total[None, :]))


def linear_in_chunks(
    mixer: Mixer, keys: Matrix, queries: Matrix, values: Matrix, decay: Matrix, counted: Counted
) -> Matrix:
    """Groups share the scores; every head has a state (arXiv 2405.21060, section 6)."""
    shared, out = mixer.heads // mixer.key_heads, np.zeros_like(values)
    states = np.zeros((mixer.heads, mixer.key_size, mixer.value_size))
    for first in range(0, values.shape[1], mixer.chunk):
        part = slice(first, first + mixer.chunk)
        for group in range(mixer.key_heads):
            scores = counted.times(queries[group, part], keys[group, part].T)
            for head in range(group * shared, (group + 1) * shared):
                mask = decayed(decay[head, part])
                own = counted.times(scores * mask, values[head, part])
                since = np.cumprod(decay[head, part])[:, None]
                before = counted.times(queries[group, part] * since, states[head])
                left = (keys[group, part] * mask[-1][:, None]).T
                kept = since[-1] * states[head]
                out[head, part] = own + before
                states[head] = kept + counted.times(left, values[head, part])
    return out


def token_by_token(
    mixer: Mixer, keys: Matrix, queries: Matrix, values: Matrix, decay: Matrix, strength: Matrix
) -> Matrix:
    """The recurrence; a strength of 0 adds without taking away what the key had."""
    out, shared = np.zeros_like(values), mixer.heads // mixer.key_heads
    for head in range(mixer.heads):
        state = np.zeros((mixer.key_size, mixer.value_size))
        for token in range(values.shape[1]):
            key, query = keys[head // shared, token], queries[head // shared, token]
            state = decay[head, token] * state
            beta = strength[head, token]
            new = values[head, token] if not beta else beta * (values[head, token] - key @ state)
            state = state + np.outer(key, new)
            out[head, token] = query @ state
    return out


def delta_in_chunks(
    mixer: Mixer,
    keys: Matrix,
    queries: Matrix,
    values: Matrix,
    decay: Matrix,
    strength: Matrix,
    counted: Counted,
) -> Matrix:
    """Chunks by the inverse of a triangle (arXiv 2412.06464, section 3.3)."""
    out, shared = np.zeros_like(values), mixer.heads // mixer.key_heads
    for head in range(mixer.heads):
        state = np.zeros((mixer.key_size, mixer.value_size))
        for first in range(0, values.shape[1], mixer.chunk):
            part = slice(first, first + mixer.chunk)
            key, query = keys[head // shared, part], queries[head // shared, part]
            beta, mask = strength[head, part][:, None], decayed(decay[head, part])
            since = np.cumprod(decay[head, part])[:, None]
            lower = np.tril(beta * counted.times(key, key.T) * mask, -1)
            inverse = counted.inverse(np.eye(len(key)) + lower)
            taken = counted.times(inverse, beta * since * key)
            given = counted.times(inverse, beta * values[head, part])
            new = given - counted.times(taken, state)
            scores = counted.times(query, key.T) * mask
            out[head, part] = counted.times(scores, new) + counted.times(query * since, state)
            left = (key * mask[-1][:, None]).T
            state = since[-1] * state + counted.times(left, new)
    return out


@pytest.mark.parametrize("kind", [MixerKind.MAMBA2, MixerKind.LIGHTNING, MixerKind.GATED_DELTA])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**16))
def test_operations_are_those_of_the_algorithm_in_chunks(kind: MixerKind, seed: int) -> None:
    """It gives what the recurrence gives, and takes as many operations as are counted."""
    mixer, count, tokens = SIZES[kind], Counted(), 3 * SIZES[kind].chunk
    rng = np.random.default_rng(seed)
    keys, queries = rng.normal(size=(2, mixer.key_heads, tokens, mixer.key_size)) / 3.0
    values = rng.normal(size=(mixer.heads, tokens, mixer.value_size))
    decay = rng.uniform(0.5, 1.0, (mixer.heads, tokens))
    strength = rng.uniform(0.1, 1.0, decay.shape) * (kind is MixerKind.GATED_DELTA)
    found = (
        delta_in_chunks(mixer, keys, queries, values, decay, strength, count)
        if kind is MixerKind.GATED_DELTA
        else linear_in_chunks(mixer, keys, queries, values, decay, count)
    )
    wanted = token_by_token(mixer, keys, queries, values, decay, strength)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert count.flops / tokens == pytest.approx(mixer.flops())


@pytest.mark.parametrize("kind", MixerKind)
def test_costs_of_a_core_are_positive_and_grow_with_its_heads(kind: MixerKind) -> None:
    one = SIZES[kind]
    two = replace(one, heads=2 * one.heads, key_heads=2 * one.key_heads)
    for cost in (Mixer.flops, Mixer.around, Mixer.moved, Mixer.kept, Mixer.small):
        assert 0 < cost(one) < cost(two) <= 2.0 * cost(one)


def layer_s(model: TrainingModel, **layout: Any) -> float:
    dense, _, _ = layer_times(RunTable.of([small_run(model, **layout)]), StepConstants())
    return float((dense.forward + dense.backward)[0])


def test_a_mean_layer_is_the_mean_of_its_kinds() -> None:
    """The time is linear in the number of layers that have a mixer in the place of attention."""

    def mixed(count: int) -> float:
        own = replace(DELTA.mixer, layers=count) if count and DELTA.mixer else None
        return layer_s(replace(DENSE, layers=8, attention_layers=8 - count, mixer=own))

    for count in range(9):
        assert mixed(count) == pytest.approx((mixed(8) * count + mixed(0) * (8 - count)) / 8)


def kept_bytes(model: TrainingModel, **layout: Any) -> float:
    run = small_run(model, **layout)
    return float(memory_use(RunTable.of([run]), MemoryConstants()).activations[0])


@pytest.mark.parametrize("model", [DENSE, replace(ROUTED, dense_layers=0)])
@pytest.mark.parametrize(
    "layout", [{}, {"tp": 4}, {"tp": 4, "sequence_parallel": True, "ep": 2, "dp": 2}, {"pp": 2}]
)
def test_a_layer_is_its_two_blocks(model: TrainingModel, layout: dict[str, Any]) -> None:
    """A transformer whose blocks count as layers of their own is the same transformer."""
    layout = layout if model.experts or "ep" not in layout else {"tp": 4, "cp": 2}
    halves = replace(
        model, layers=2 * model.layers, attention_layers=model.layers, bare_layers=model.layers
    )
    assert kept_bytes(halves, **layout) == pytest.approx(kept_bytes(model, **layout))
    tables = [RunTable.of([small_run(m, **layout)]) for m in (model, halves)]
    for measure in (
        model_parameters,
        model_flops,
        lambda table: step_times(table, StepConstants(host_tp_s=1e-4)).total,
    ):
        whole, apart = (float(measure(table)[0]) for table in tables)
        assert apart == pytest.approx(whole)


def test_kept_bytes_are_the_mean_of_those_of_the_kinds() -> None:
    def mixed(count: int) -> float:
        own = replace(STATES.mixer, layers=count) if count and STATES.mixer else None
        return kept_bytes(replace(DENSE, layers=8, attention_layers=8 - count, mixer=own))

    for count in range(9):
        assert mixed(count) == pytest.approx((mixed(8) * count + mixed(0) * (8 - count)) / 8)
    assert mixed(8) != mixed(0)


def test_rows_of_latent_experts_are_narrow() -> None:
    """Copies, their exchange and experts shrink with their width; two products are more."""
    whole, latent = replace(DELTA, expert_hidden=0), replace(DELTA, expert_hidden=DELTA.hidden)
    tables = [RunTable.of([small_run(m, dp=8, ep=8)]) for m in (whole, latent, DELTA)]
    plain, same, narrow = (layer_times(table, StepConstants())[1] for table in tables)
    assert same.products[0] > plain.products[0] > 0
    assert same.stream[0] == plain.stream[0]
    assert narrow.stream[0] < plain.stream[0]
    exchanged = []
    for table in (tables[0], tables[2]):
        seen, hidden = (
            step_times(
                table.with_columns({"ep_overlap": np.ones(1), "micro_batch": np.full(1, 256.0)}),
                StepConstants(host_s=0.0, ep_hidden=share),
            ).layer_forward[0]
            for share in (0.0, 1.0)
        )
        exchanged.append(float(seen - hidden))
    assert exchanged[1] / exchanged[0] == pytest.approx(DELTA.expert_hidden / DELTA.hidden, rel=0.1)


def test_heads_of_keys_are_repeated_where_ranks_are_more() -> None:
    def columns(tp: int) -> float:
        return float(mixer_inward(RunTable.of([small_run(STATES, tp=tp)]))[0])

    assert columns(8) == pytest.approx(columns(1) / 8)
    assert columns(16) == pytest.approx(columns(8) / 2 + 128)


@pytest.mark.fast
def test_layouts_are_tried_that_divide_the_heads_of_mixers() -> None:
    odd = replace(STATES, mixer=Mixer(MixerKind.MAMBA2, 3, 6, 2, 128, 64))
    assert set(rows_of(small_run(odd), 8, {})[:, 0].tolist()) == {1.0, 2.0}


def test_cost_grows_with_tokens_alone() -> None:
    """Twice as long a sequence takes twice as long without attention, longer with it."""
    pure = replace(STATES, attention_layers=0, bare_layers=3)
    run = small_run(pure)
    longer = replace(run, layout=replace(run.layout, seq_len=4 * run.layout.seq_len))
    quadratic = replace(longer, model=DENSE), replace(run, model=DENSE)
    ratios = []
    for far, near in ((longer, run), quadratic):
        times = [layer_times(RunTable.of([r]), StepConstants())[0] for r in (far, near)]
        ratios.append(float((times[0].stream / times[1].stream)[0]))
        ratios.append(float(times[0].core[0] / max(times[1].core[0], 1e-30)))
    assert ratios[0] == ratios[2] == pytest.approx(4.0)
    assert ratios[1] == 0.0
    assert ratios[3] == pytest.approx(16.0)


@pytest.mark.parametrize("model", [STATES, DELTA])
def test_ranks_share_out_heads(model: TrainingModel) -> None:
    """Tensor and context parallelism leave each device its part, and recomputation less memory."""

    for parts in ({"tp": 4, "sequence_parallel": True}, {"cp": 4}):
        assert layer_s(model, **parts) < 0.5 * layer_s(model)
        assert kept_bytes(model, **parts) == pytest.approx(kept_bytes(model) / 4.0)
    assert kept_bytes(model, recompute=Recompute.FULL) < 0.5 * kept_bytes(model)


def test_an_exchange_over_context_parallel_ranks_takes_time() -> None:
    silent, loud = (StepConstants(cp_hidden=share) for share in (1.0, 0.0))
    table = RunTable.of([small_run(replace(STATES, attention_layers=0, bare_layers=3), cp=4)])
    assert step_times(table, loud).total[0] > step_times(table, silent).total[0]


def test_gates_and_latent_experts_have_their_parameters() -> None:
    def parameters(model: TrainingModel) -> float:
        return float(model_parameters(RunTable.of([small_run(model)]))[0])

    more = parameters(DELTA) - parameters(replace(DELTA, query_gate=False))
    assert more == DELTA.hidden * DELTA.heads * DELTA.head_size * DELTA.attention_layers
    routed = DELTA.layers - DELTA.dense_layers
    less = parameters(replace(DELTA, expert_hidden=0)) - parameters(DELTA)
    experts = 3 * DELTA.experts * DELTA.expert_ffn * (DELTA.hidden - DELTA.expert_hidden)
    assert less == routed * (experts - 2 * DELTA.hidden * DELTA.expert_hidden)


def test_measured_transformers_say_nothing_of_other_layers() -> None:
    """A model with mixers is like none of them, though all its other sizes are the same."""
    known, machine = neighbours_of("megatron-core-hopper"), np.array(["h100"])
    mixer = Mixer(MixerKind.GATED_DELTA, 16, 32, 16, 128, 128)
    other = replace(LLAMA, attention_layers=16, mixer=mixer)
    plain, own = (RunTable.of([small_run(model, dp=8)]) for model in (LLAMA, other))
    assert known.factor(plain, machine)[0] != 1.0
    assert known.factor(own, machine)[0] == 1.0
    assert known.deviation(own, machine)[0] > known.deviation(plain, machine)[0]


def test_a_recipe_may_leave_out_what_the_software_has() -> None:
    layout = small_run(dp=8, ep=1).layout
    for model, has in (("Nemotron-3-Nano-30B-A3B", False), ("DeepSeek-V3", True)):
        assert ("fused-experts" in software_flags("megatron-core", "gb300", model, layout)) == has


NANO = (
    f"layer-pattern={NANO_PATTERN}; mixer=mamba2; mixer-heads=64; mixer-key-heads=8; "
    "mixer-key-size=128; mixer-value-size=64; mixer-chunk=128; kv-channels=128; num-experts=128; "
    "moe-router-topk=6; moe-intermediate-size=1856; n-shared-experts=2"
)
NANO_ROW = {
    "model": "Nemotron-3-Nano", "hidden": "2688", "layers": "52", "heads": "32", "kv_heads": "2",
    "ffn_hidden": "1856", "vocab": "131072", "notes": NANO,
}  # fmt: skip
NEXT = (
    "mixer=gated-delta; mixer-layers=36; mixer-heads=32; mixer-key-heads=16; mixer-key-size=128; "
    "mixer-value-size=128; query-gate; kv-channels=256; num-experts=512; moe-router-topk=10; "
    "moe-intermediate-size=512; n-shared-experts=1"
)
NEXT_ROW = {
    "model": "Qwen3-Next", "hidden": "2048", "layers": "48", "heads": "16", "kv_heads": "2",
    "ffn_hidden": "5120", "vocab": "151936", "notes": NEXT,
}  # fmt: skip


@pytest.mark.parametrize(("row", "config"), [(NANO_ROW, NEMOTRON_3_NANO), (NEXT_ROW, QWEN3_NEXT)])
def test_notes_of_a_row_say_what_a_configuration_says(
    row: dict[str, str], config: dict[str, object]
) -> None:
    found = read_row(ROW | {"pp": "1", "tp": "1", "dp": "16"} | row)
    assert found.unread == ()
    assert replace(found.run.model, name="", global_every=1) == training_model(config, "")[0]


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        (NANO.replace("MEM", "MQM", 1), "has 'q'; letters: M"),
        (NANO.replace("MEM", "M", 1), "is of 50 layers, not 52"),
        (NANO.replace("=mamba2", "=mamba3"), "mixer in 'notes' is 'mamba3'; known: mamba"),
        (NANO.replace("mixer-heads=64; ", ""), "mixer-heads is not in 'notes'"),
        (f"{NANO}; mixer-conv=-1", "mixer-conv in 'notes' is -1"),
        (f"{NANO}; mixer-chunk=1.5", "mixer-chunk in 'notes' is 1.5"),
        (f"{NANO}; mixer-rank=-2", "mixer-rank in 'notes' is -2"),
        (NANO.replace("key-heads=8", "key-heads=7"), "mixer-key-heads 7 does not divide 64"),
        (NEXT.replace("layers=36", "layers=60"), "60 layers with a mixer in 'notes', of 52"),
        (NEXT + "; attention-layers=53", "of 52"),
        (NANO.replace("state", "x").replace("key-size=128", "key-size=many"), "is no number"),
    ],
)
def test_notes_that_cannot_be_skip_the_row(notes: str, told: str) -> None:
    with pytest.raises(LayoutError, match=told):
        read_row(ROW | {"pp": "1", "tp": "1"} | NANO_ROW | {"notes": notes})


def test_tensor_parallel_ranks_divide_the_heads_of_mixers() -> None:
    odd = NANO.replace("mixer-heads=64; mixer-key-heads=8", "mixer-heads=63; mixer-key-heads=7")
    row = ROW | {"pp": "1", "tp": "2", "dp": "", "devices": "16", "ep": "8"} | NANO_ROW
    with pytest.raises(LayoutError, match="does not divide 63 heads"):
        read_row(row | {"notes": odd})
