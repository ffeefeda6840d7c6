"""Many runs side by side: one array per size, so that one evaluation prices them all."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.memory import Optimizer
from costmodel.schedules.closed_form import DEFERRED, Pipelines
from costmodel.training.distinct import taken
from costmodel.training.machines import MachineRates, machine_rates
from costmodel.training.mixing import Mixing
from costmodel.training.records import Attention, Recompute
from costmodel.training.stage_split import stage_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from costmodel.training.records import TrainingRun

__all__ = ["FloatArray", "RunTable"]

FloatArray: TypeAlias = NDArray[np.float64]

_SHORT = {"fp8", "mxfp8", "fp4"}
"""Types of products of 8 bits and fewer."""

_OPTIMIZERS = tuple(Optimizer)

_FLAGS = (
    "fused-tp", "overlap", "frozen", "early-stop", "uncompiled", "split-activation", "old-release",
    "whole-square", "scatter-stages", "casts", "graphs", "ep-overlap", "offloads", "fixed-experts",
    "sends-once", "split-experts", "swap-attention", "swap-optimizer", "reuse-master",
    "recompute-activation", "recompute-heads", "keeps-attention", "fused-loss", "gather-once",
    "exposed-gradients", "apart-products", "alone", "sums-apart",
)  # fmt: skip
"""Flags of a run that are a column of the same name."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Sizes of N runs, each of shape (N,), or () where all runs share the value.

    The fields are those of `TrainingModel` and `TrainingLayout`; truth values are 0 or 1, and
    values have the width of queries where a model states none of their own.
    """

    hidden: FloatArray
    layers: FloatArray
    heads: FloatArray
    kv_heads: FloatArray
    head_size: FloatArray
    ffn: FloatArray
    vocab: FloatArray
    gated: FloatArray
    tied: FloatArray
    experts: FloatArray
    experts_per_token: FloatArray
    expert_groups: FloatArray
    groups_per_token: FloatArray
    expert_ffn: FloatArray
    shared_ffn: FloatArray
    dense_layers: FloatArray
    expert_capacity: FloatArray
    value_size: FloatArray
    query_rank: FloatArray
    kv_rank: FloatArray
    rotary_size: FloatArray
    window: FloatArray
    global_every: FloatArray
    activation_kernels: FloatArray
    expert_biases: FloatArray
    causal: FloatArray
    further: FloatArray
    global_batch: FloatArray
    micro_batch: FloatArray
    seq_len: FloatArray
    tp: FloatArray
    pp: FloatArray
    vpp: FloatArray
    dp: FloatArray
    cp: FloatArray
    ep: FloatArray
    etp: FloatArray
    zero_stage: FloatArray
    zero_group: FloatArray
    sequence_parallel: FloatArray
    recompute_share: FloatArray

    recompute_full: FloatArray
    """Share of the layers that are computed again in the backward pass."""

    recompute_core: FloatArray
    """Share of the layers whose attention core is computed again."""

    unfused: FloatArray
    """1 where attention runs as separate kernels."""

    first_layers: FloatArray
    """Layers of the first stage."""

    last_layers: FloatArray
    """Layers of the last stage."""

    most_layers: FloatArray
    """Layers of the fullest stage."""

    fp8: FloatArray
    """1 where the large products have 8-bit operands."""

    fp4: FloatArray
    """1 where they have 4-bit operands."""

    fused_tp: FloatArray
    """1 where products are fused with their tensor parallel collectives."""

    overlap: FloatArray
    """1 where the run states that gradients are reduced beside the backward pass."""

    exposed_gradients: FloatArray
    """1 where the run states that they are not."""

    frozen: FloatArray
    """1 where the weights get no gradient (adapters)."""

    early_stop: FloatArray
    """1 where recomputation ends before the last product of a layer, whose result nobody needs."""

    uncompiled: FloatArray
    """1 where element-wise operators run one by one."""

    split_activation: FloatArray
    """1 where the activation between the products is several kernels."""

    mx: FloatArray
    """1 where operands are scaled block by block."""

    old_release: FloatArray
    """1 where the software is older than the release that its constants are fitted to."""

    whole_square: FloatArray
    """1 where fused attention computes scores above the diagonal too, though nobody sees them."""

    scatter_stages: FloatArray
    """1 where tensor parallel ranks send a part each to the next stage, which gathers them."""

    casts: FloatArray
    """1 where tensors are cast to 8 bits by kernels of their own."""

    graphs: FloatArray
    """1 where captured graphs are replayed, so that the host issues little."""

    ep_overlap: FloatArray
    """1 where the exchange between experts runs beside computation."""

    offloads: FloatArray
    """1 where the inputs of layers that are computed again wait on the host."""

    fixed_experts: FloatArray
    """1 where experts work on buffers of fixed size, so that the host need not know how many tokens
    each has before it goes on."""

    batched_experts: FloatArray
    """1 where they are one batched product."""

    short_copies: FloatArray
    """1 where the rows that experts work on are written in 8 bits, not cast by their products."""

    sends_once: FloatArray
    """1 where a token crosses once to each server and device, not once for each of its experts."""

    fused_experts: FloatArray
    """1 where one kernel has the products of all experts, their activation and its cast."""

    split_experts: FloatArray
    """1 where tensor parallel ranks split the widths of routed experts unless the layout says."""

    swap_attention: FloatArray
    """1 where saved tensors of attention are moved to the host."""

    swap_optimizer: FloatArray
    """1 where optimizer states are kept on the host."""

    reuse_master: FloatArray
    """1 where the 16-bit parameter is the upper half of the master copy."""

    recompute_activation: FloatArray
    """1 where the activation function is computed again."""

    recompute_heads: FloatArray
    """1 where queries, keys and values of latent attention are computed again from what is
    compressed."""

    keeps_attention: FloatArray
    """1 where full recomputation leaves out attention and the products into it: queries, keys,
    values and the result are kept."""

    fused_loss: FloatArray
    """1 where the loss is compiled into one kernel, so that logits are kept in 16 bits alone."""

    gather_once: FloatArray
    """1 where sharded parameters are gathered once per step, not per micro-batch."""

    all_forward: FloatArray
    """1 where all forward passes of a pipeline come before all backward passes."""

    apart_products: FloatArray
    """1 where queries, keys and values are products of their own, and gate and up are, as the
    operators of a graph are; 0 where software joins them."""

    alone: FloatArray
    """1 where kernels and messages take what was measured of them alone, as in plans of the profile
    `generic`; 0 where constants fitted to steps say what they take in one."""

    gradient_bytes: FloatArray
    """Bytes of an accumulated gradient; 0 as the software keeps it."""

    sums_apart: FloatArray
    """1 where a kernel of its own adds the gradients of a micro-batch to those before."""

    optimizer: FloatArray
    """How parameters are updated, by its place in `Optimizer`."""

    deferred: FloatArray
    """See `Pipelines`, as for the next one."""

    bidirectional: FloatArray

    machine: MachineRates
    """Rates of the machine of each run."""

    mixing: Mixing
    """Kinds of layers of each run's model."""

    @property
    def micro_batches(self) -> FloatArray:
        """Micro-batches of a replica in one step."""
        return self.global_batch / (self.micro_batch * self.dp)

    @property
    def pipelines(self) -> Pipelines:
        """How many stages there are, and the order of their passes."""
        sizes = (self.pp, self.vpp, self.micro_batches)
        return Pipelines(*sizes, self.deferred, self.bidirectional, self.all_forward)

    @classmethod
    def of(cls, runs: Sequence[TrainingRun]) -> Self:
        """The table of some runs, in their order."""
        names = [item.name for item in fields(cls)]
        columns = _stated([run.model for run in runs], names)
        columns |= _stated([run.layout for run in runs], names)
        columns |= _states(runs)
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
        arrays |= _splits(runs)
        return cls(**arrays, machine=_rates(runs), mixing=Mixing.of([run.model for run in runs]))

    def with_columns(self, columns: Mapping[str, FloatArray]) -> Self:
        """The same runs with some sizes replaced, such as many layouts of one run."""
        return replace(self, **columns)  # type: ignore[arg-type]  # names are checked by replace

    def take(self, rows: Iterable[int]) -> Self:
        """Some of the runs."""
        return taken(self, np.asarray(list(rows), dtype=np.int64))


def _stated(records: Sequence[object], names: Iterable[str]) -> dict[str, list[float]]:
    """Columns of these names that records have as fields."""
    known = [name for name in names if hasattr(records[0], name)]
    return {name: [float(getattr(each, name)) for each in records] for name in known}


def _rates(runs: Sequence[TrainingRun]) -> MachineRates:
    alone = ["alone" in run.flags for run in runs]
    rates = machine_rates([(run.machine, run.precision) for run in runs], alone)
    stated = np.asarray([run.port_bytes_per_s for run in runs], dtype=np.float64)
    inside = np.asarray([run.link_bytes_per_s for run in runs], dtype=np.float64)
    server = np.asarray([run.server for run in runs], dtype=np.float64)
    return replace(
        rates,
        port_bytes_per_s=np.where(stated > 0, stated, rates.port_bytes_per_s),
        link_bytes_per_s=np.where(inside > 0, inside, rates.link_bytes_per_s),
        server=np.where(server > 0, server, rates.server),
    )


def _states(runs: Sequence[TrainingRun]) -> dict[str, list[float]]:
    full = [r.layout.recompute == Recompute.FULL for r in runs]
    core = [r.layout.recompute == Recompute.SELECTIVE for r in runs]
    share = [r.layout.recompute_share for r in runs]
    flags = {name.replace("-", "_"): [float(name in r.flags) for r in runs] for name in _FLAGS}
    return flags | {
        "value_size": [float(r.model.value_size or r.model.head_size) for r in runs],
        "recompute_full": [part * on for part, on in zip(share, full, strict=True)],
        "recompute_core": [part * on for part, on in zip(share, core, strict=True)],
        "unfused": [float(r.attention == Attention.UNFUSED) for r in runs],
        "fp8": [float(r.precision in {"fp8", "mxfp8"}) for r in runs],
        "fp4": [float(r.precision == "fp4") for r in runs],
        "mx": [float(r.precision in {"mxfp8", "fp4"}) for r in runs],
        "short_copies": [float("short-copies" in r.flags and r.precision in _SHORT) for r in runs],
        "batched_experts": [float({"fixed-experts", "batches"} <= r.flags) for r in runs],
        "fused_experts": [
            float("fused-experts" in r.flags and r.precision == "mxfp8") for r in runs
        ],
        "gradient_bytes": [r.gradient_bytes for r in runs],
        "optimizer": [float(_OPTIMIZERS.index(r.optimizer)) for r in runs],
        "all_forward": [float(r.layout.schedule == "gpipe") for r in runs],
        "deferred": [DEFERRED.get(r.layout.schedule, 0.0) for r in runs],
        "bidirectional": [float(r.layout.schedule == "dualpipe") for r in runs],
    }


def _splits(runs: Sequence[TrainingRun]) -> dict[str, FloatArray]:
    """Layers of the first, the last and the fullest stage, as the run lists them or evenly."""
    sizes = np.array(
        [(r.model.layers, r.layout.pp, r.layout.vpp, r.model.further) for r in runs], np.float64
    ).reshape(-1, 4)
    columns = np.stack(stage_layers(*sizes.T), axis=1)
    for row, run in zip(columns, runs, strict=True):
        listed = run.layout.stage_layers
        if listed:
            row[:] = listed[0], listed[-1], max(listed)
    return dict(zip(("first_layers", "last_layers", "most_layers"), columns.T, strict=True))
