"""Many runs side by side: one array per size, so that one evaluation prices them all."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

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

_MODEL = (
    "hidden",
    "layers",
    "heads",
    "kv_heads",
    "head_size",
    "ffn",
    "vocab",
    "gated",
    "tied",
    "experts",
    "experts_per_token",
    "expert_groups",
    "groups_per_token",
    "expert_ffn",
    "shared_ffn",
    "dense_layers",
    "expert_capacity",
    "value_size",
    "query_rank",
    "kv_rank",
    "rotary_size",
    "window",
    "global_every",
    "activation_kernels",
    "expert_biases",
    "causal",
    "further",
)
_LAYOUT = (
    "global_batch",
    "micro_batch",
    "seq_len",
    "tp",
    "pp",
    "vpp",
    "dp",
    "cp",
    "ep",
    "etp",
    "zero_stage",
    "zero_group",
    "sequence_parallel",
    "recompute_share",
)


@dataclass(frozen=True, slots=True)
class RunTable:
    """Sizes of N runs, each of shape (N,), or () where all runs share the value.

    The fields are those of `TrainingModel` and `TrainingLayout`; truth values are 0 or 1.
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

    swapped_attention: FloatArray
    """1 where saved tensors of attention are moved to the host."""

    swapped_optimizer: FloatArray
    """1 where optimizer states are kept on the host."""

    reused_master: FloatArray
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

    put_off: FloatArray
    """Gradients of weights are put off to fill the bubble: 1 with the memory of 1F1B's first stage
    on each (ZB-H1), 2 with twice as much (ZB-H2)."""

    both_ways: FloatArray
    """1 where micro-batches enter a pipeline at both ends, so that two devices have each stage."""

    machine: MachineRates
    """Rates of the machine of each run."""

    mixing: Mixing
    """Kinds of layers of each run's model."""

    @classmethod
    def of(cls, runs: Sequence[TrainingRun]) -> Self:
        """The table of some runs, in their order."""
        columns = {name: [float(getattr(run.model, name)) for run in runs] for name in _MODEL}
        columns |= {name: [float(getattr(run.layout, name)) for run in runs] for name in _LAYOUT}
        columns |= _states(runs)
        arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
        arrays |= _splits(runs)
        return cls(**arrays, machine=_rates(runs), mixing=Mixing.of([run.model for run in runs]))

    def with_columns(self, columns: Mapping[str, FloatArray]) -> Self:
        """The same runs with some sizes replaced, such as many layouts of one run."""
        return replace(self, **columns)  # type: ignore[arg-type]  # names are checked by replace

    def take(self, rows: Iterable[int]) -> RunTable:
        """Some of the runs."""
        chosen = np.asarray(list(rows), dtype=np.int64)
        columns = {
            item.name: getattr(self, item.name)[chosen]
            for item in fields(self)
            if item.name not in {"machine", "mixing"}
        }
        machine, mixing = self.machine.take(chosen), self.mixing.take(chosen)
        return RunTable(**columns, machine=machine, mixing=mixing)


def _rates(runs: Sequence[TrainingRun]) -> MachineRates:
    rates = machine_rates([(run.machine, run.precision) for run in runs])
    stated = np.asarray([run.port_bytes_per_s for run in runs], dtype=np.float64)
    server = np.asarray([run.server for run in runs], dtype=np.float64)
    return replace(
        rates,
        port_bytes_per_s=np.where(stated > 0, stated, rates.port_bytes_per_s),
        server=np.where(server > 0, server, rates.server),
    )


def _states(runs: Sequence[TrainingRun]) -> dict[str, list[float]]:
    full = [r.layout.recompute == Recompute.FULL for r in runs]
    core = [r.layout.recompute == Recompute.SELECTIVE for r in runs]
    share = [r.layout.recompute_share for r in runs]
    return {
        "recompute_full": [part * on for part, on in zip(share, full, strict=True)],
        "recompute_core": [part * on for part, on in zip(share, core, strict=True)],
        "unfused": [float(r.attention == Attention.UNFUSED) for r in runs],
        "fp8": [float(r.precision in {"fp8", "mxfp8"}) for r in runs],
        "fp4": [float(r.precision == "fp4") for r in runs],
        "fused_tp": [float("fused-tp" in r.flags) for r in runs],
        "overlap": [float("overlap" in r.flags) for r in runs],
        "frozen": [float("frozen" in r.flags) for r in runs],
        "early_stop": [float("early-stop" in r.flags) for r in runs],
        "uncompiled": [float("uncompiled" in r.flags) for r in runs],
        "old_release": [float("old-release" in r.flags) for r in runs],
        "whole_square": [float("whole-square" in r.flags) for r in runs],
        "swapped_attention": [float("swap-attention" in r.flags) for r in runs],
        "swapped_optimizer": [float("swap-optimizer" in r.flags) for r in runs],
        "reused_master": [float("reuse-master" in r.flags) for r in runs],
        "recompute_activation": [float("recompute-activation" in r.flags) for r in runs],
        "recompute_heads": [float("recompute-heads" in r.flags) for r in runs],
        "keeps_attention": [float("keeps-attention" in r.flags) for r in runs],
        "scatter_stages": [float("scatter-stages" in r.flags) for r in runs],
        "casts": [float("casts" in r.flags) for r in runs],
        "graphs": [float("graphs" in r.flags) for r in runs],
        "ep_overlap": [float("ep-overlap" in r.flags) for r in runs],
        "offloads": [float("offloads" in r.flags) for r in runs],
        "fixed_experts": [float("fixed-experts" in r.flags) for r in runs],
        "short_copies": [float("short-copies" in r.flags and r.precision in _SHORT) for r in runs],
        "batched_experts": [float({"fixed-experts", "batches"} <= r.flags) for r in runs],
        "sends_once": [float("sends-once" in r.flags) for r in runs],
        "fused_experts": [
            float("fused-experts" in r.flags and r.precision == "mxfp8") for r in runs
        ],
        "split_experts": [float("split-experts" in r.flags) for r in runs],
        "mx": [float(r.precision in {"mxfp8", "fp4"}) for r in runs],
        "split_activation": [float("split-activation" in r.flags) for r in runs],
        "fused_loss": [float("fused-loss" in r.flags) for r in runs],
        "gather_once": [float("gather-once" in r.flags) for r in runs],
        "all_forward": [float(r.layout.schedule == "gpipe") for r in runs],
        "put_off": [_PUT_OFF.get(r.layout.schedule, 0.0) for r in runs],
        "both_ways": [float(r.layout.schedule == "dualpipe") for r in runs],
    }


_PUT_OFF = {"zb-h1": 1.0, "zb-h2": 2.0}


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
