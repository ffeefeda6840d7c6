r"""What published runs took, in units of what the cost model of plans says of them.

A search prices operators one by one (`planner.lowering`), not layers by fitted constants
(`costmodel.training`). Here that model prices the layouts of published runs of dense transformers:
the network is built from its sizes, one and two layers of it are lowered on the devices of one
stage, tensor parallel ranks split weights and data parallel ranks the batch, and

    step = L / p x layer + ends + m v x send + (p - 1) x (L / (p v) x layer + send)

with all communication in turn, as a search prints it: p stages of v chunks each, m micro-batches,
the layer in brackets and the sends (there and back) those of one. Recomputation adds the forward
pass. Attention runs in one kernel or in several, as it did in the run.

    python -m benchmarks.plan_steps ../shared/reference/measured_training.csv \
        benchmarks/other_runs.csv --write
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

import data
from benchmarks.calibrate import excluded
from benchmarks.plan_ends import Compared, calibration, held_lines, lines
from costmodel.operators.constants import generation_of
from costmodel.training.dataset import measured_medians, read_entries, read_table
from costmodel.training.families import block_of
from costmodel.training.records import Attention, Recompute
from importers.hf_config import import_config
from ir.batch import BatchError
from planner.baselines import InexpressibleError, Scheme, choice_of
from planner.edges import CAUSE_GATHER, CAUSE_SYNC
from planner.evidence import Evidence
from planner.lowered import Setting
from planner.lowering import lower
from planner.preparation import dialect_for, input_layouts
from planner.request import RequestError, SearchRequest
from planner.search import made_ready
from planner.stages.machine import send_s
from topology.catalogue import named_chip, named_cluster
from topology.errors import ClusterError
from topology.mesh import Mesh, MeshAxis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun
    from ir.plan import PlannedCollective
    from topology.cluster import Cluster

_SERVERS = {
    "volta": "dgx-1v", "ampere": "dgx-a100", "hopper": "dgx-h100", "blackwell": "hgx-b200",
    "ascend": "atlas-800t-a2", "cdna": "mi300x-platform",
}  # fmt: skip
_OWN_SERVERS = {
    "ascend_910a": "atlas-800-9000", "ascend_910c": "atlas-900-a3", "gb200_186g": "gb200-nvl72",
    "gb300": "gb200-nvl72",
}  # fmt: skip
_JOINED = {"gb200-nvl72": 72}
"""Devices that the inner network joins; 8 of others."""
_DOUBTFUL = {"mindformers-910a", "mindspeed-ci-910b"}
"""Models that do not fit the devices named, truncated models with deterministic kernels."""
HALF_BYTES = 2.0
_NO_LIMIT = 1e15

HEAD = """\
# Seconds of published runs of dense transformers over what the cost model of plans says of their
# layouts, written by
#     python -m benchmarks.plan_steps ROWS [ROWS ...] --write
# docs/costmodel.md says what it means, docs/fidelity.md how it was measured.
"""


class Step(NamedTuple):
    """What the cost model of plans says of a run: its step, and the mean of a forward operator."""

    step_s: float
    operator_s: float


@dataclass(frozen=True, slots=True)
class _Priced:
    """Seconds of all micro-batches of one stage, or of a part of it."""

    step_s: float
    forward_s: float
    """Of it the forward pass, with its communication."""
    once_s: float
    """Of it what happens once in a step."""
    compute_s: float
    """Of it the forward pass without communication."""
    operators: int

    def less(self, other: _Priced) -> _Priced:
        """What is left without another."""
        return _Priced(
            self.step_s - other.step_s,
            self.forward_s - other.forward_s,
            self.once_s - other.once_s,
            self.compute_s - other.compute_s,
            self.operators - other.operators,
        )


def compared(entries: Sequence[Entry], reasons: Counter[str]) -> Iterator[Compared]:
    """The runs that can be priced; why others cannot is counted."""
    measured, aside = measured_medians(entries), excluded()
    for entry, step_s in zip(entries, measured, strict=True):
        if entry.read is None or step_s is None or entry.name in aside:
            continue
        run = entry.read.run
        reason, found = outside(run), None
        try:
            found = None if reason else priced_step(run)
        except (InexpressibleError, ClusterError, RequestError, BatchError) as error:
            reason = str(error).splitlines()[0]
        if reason or found is None:
            reasons[reason] += 1
            continue
        yield Compared(
            name=run.name,
            block=block_of(run),
            model=run.model.name.lower(),
            generation=generation_of(_chip_of(run)),
            ratio=step_s / found.step_s,
            operator_s=found.operator_s,
        )


def outside(run: TrainingRun) -> str:
    """Why a run is not priced; empty if it is."""
    model, layout = run.model, run.layout
    chip, stage = _chip_of(run), layout.dp * layout.tp
    faults = {
        "a block whose rows contradict one another": block_of(run) in _DOUBTFUL,
        "experts or compressed keys": model.experts > 0 or model.kv_rank > 0,
        "state spaces or linear attention": model.mixer is not None,
        "8 or 4 bits": run.precision not in {"fp16", "bf16"},
        "context parallelism": layout.cp > 1,
        "weights that get no gradient": "frozen" in run.flags,
        "no cluster file of such machines": generation_of(chip) not in _SERVERS,
    }
    reason = next((reason for reason, is_so in faults.items() if is_so), "")
    if not reason and _filled(chip, stage) > stage:
        return "a stage on parts of servers"
    return reason


def priced_step(run: TrainingRun) -> Step:
    """What the cost model of plans says of the layout of a run without experts.

    Raises:
        InexpressibleError, ClusterError, RequestError, BatchError: it cannot be priced.
    """
    layout, chip = run.layout, _chip_of(run)
    count = max(round(layout.micro_batches), 1)
    plain = replace(run.model, name="", layers=1)
    bare = replace(
        layout, global_batch=count, pp=1, vpp=1, recompute=Recompute.NONE, stage_layers=(),
        recompute_share=1.0,
    )  # fmt: skip
    fused = run.attention is not Attention.UNFUSED
    one, two = (_priced(replace(plain, layers=n), bare, chip, fused) for n in (1, 2))
    layer, again = two.less(one), 0.0
    if layout.recompute is Recompute.FULL:
        again = layout.recompute_share * layer.forward_s
    ends, share = one.less(layer), run.model.layers / layout.pp
    steady = (layer.step_s + again - layer.once_s) / count
    between_s = sent_s(run)
    stages = share * (layer.step_s + again) + ends.step_s + count * layout.vpp * between_s
    step_s = stages + (layout.pp - 1) * (share * steady / layout.vpp + between_s)
    return Step(step_s, layer.compute_s / count / max(layer.operators, 1))


def sent_s(run: TrainingRun) -> float:
    """Seconds in which a micro-batch comes to a stage and its gradient goes back."""
    layout, chip = run.layout, _chip_of(run)
    if layout.pp == 1:
        return 0.0
    nbytes = HALF_BYTES * layout.micro_batch * layout.seq_len * run.model.hidden / layout.tp
    return 2 * send_s(_cluster(chip, _filled(chip, layout.devices)), nbytes)


@cache
def _chips() -> Mapping[str, str]:
    record = yaml.safe_load(data.read_text("calibration", "training_machines.yaml"))
    return {name: str(each.get("chip", name)) for name, each in record["machines"].items()}


def _chip_of(run: TrainingRun) -> str:
    return _chips()[run.machine]


def _cluster(chip: str, devices: int) -> Cluster:
    return replace(named_cluster(_server(chip), devices), chip=named_chip(chip))


def _server(chip: str) -> str:
    return _OWN_SERVERS.get(chip) or _SERVERS[generation_of(chip)]


def _filled(chip: str, devices: int) -> int:
    """Devices of the servers that so many are on; of a part of one, that part."""
    each = _JOINED.get(_server(chip), 8)
    return devices if devices <= each else -(-devices // each) * each


@cache
def _priced(model: TrainingModel, layout: TrainingLayout, chip: str, fused: bool) -> _Priced:
    """The layers of a model on the devices of one stage; `global_batch` counts micro-batches."""
    cluster = _cluster(chip, layout.dp * layout.tp)
    batch = layout.micro_batch * layout.dp
    request = SearchRequest(
        batch=batch, target="generic", memory_limit_bytes=_NO_LIMIT, fused_attention=fused
    )
    sizes = {"batch": batch, "sequence": layout.seq_len}
    halves = "bfloat16" if cluster.chip.supports("bfloat16") else "float16"
    graph = import_config({**_config(model), "torch_dtype": halves}, "run", "run", sizes)
    ready, dialect = made_ready(graph, cluster, request), dialect_for(request, cluster.devices)
    mesh, scheme = _split(cluster, layout)
    setting = Setting(
        cluster, mesh, dialect, training=True, optimizer=request.optimizer,
        input_layouts=input_layouts(ready.liveness.graph, mesh, dialect, request),
        memory_limit_bytes=_NO_LIMIT, micro_batches=layout.global_batch,
    )  # fmt: skip
    lowered = lower(ready.liveness, setting)
    if isinstance(ready.batch, str):
        raise InexpressibleError(ready.batch)
    evidence = Evidence(lowered, choice_of(lowered, scheme, ready.batch))
    return _summed(evidence)


def _summed(evidence: Evidence) -> _Priced:
    sent = evidence.collectives()
    estimate = evidence.estimate(sent)
    causes = estimate.time_by_cause
    compute_s = causes.get("compute forward", 0.0)
    once_s = causes.get("optimizer update", 0.0) + sum(c.time_s for c in sent if _is_once(c))
    forward = (c.time_s * (c.count - c.backward) / c.count for c in sent if not _is_once(c))
    operators = evidence.operators()
    return _Priced(
        estimate.step_time_s,
        compute_s + sum(forward),
        once_s,
        compute_s,
        sum(op.compute_s > 0 for op in operators),
    )


def _is_once(sent: PlannedCollective) -> bool:
    return sent.cause in {CAUSE_GATHER, CAUSE_SYNC}


def _split(cluster: Cluster, layout: TrainingLayout) -> tuple[Mesh, Scheme]:
    """Tensor parallel ranks are neighbours, data parallel ones the rest."""
    axes: list[tuple[MeshAxis, bool]] = []
    left = layout.tp
    for index in reversed(range(len(cluster.tiers))):
        tier = cluster.tiers[index]
        inner = math.gcd(left, tier.size)
        left //= inner
        axes.append((MeshAxis(f"{tier.name}_tensor", inner, index), True))
        axes.append((MeshAxis(f"{tier.name}_data", tier.size // inner, index), False))
    if left > 1:
        raise InexpressibleError("tensor parallel ranks do not divide the tiers")
    kept = [each for each in reversed(axes) if each[0].size > 1] or axes[-1:]
    split = [i for i, (axis, _) in enumerate(kept) if axis.size > 1]
    tensor = tuple(i for i in split if kept[i][1])
    batch = tuple(i for i in split if not kept[i][1])
    scheme = Scheme("published", batch, tensor, shard_weights=layout.zero_stage == 3)
    return Mesh(tuple(axis for axis, _ in kept)), scheme


def _config(model: TrainingModel) -> dict[str, Any]:
    """A config.json of these sizes."""
    if model.gated:
        return {
            "model_type": "llama", "hidden_size": model.hidden, "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads, "num_key_value_heads": model.kv_heads,
            "intermediate_size": model.ffn, "vocab_size": model.vocab,
            "head_dim": model.head_size, "tie_word_embeddings": model.tied,
            "hidden_act": "silu", "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-5,
        }  # fmt: skip
    return {
        "model_type": "gpt2", "n_embd": model.hidden, "n_layer": model.layers,
        "n_head": model.heads, "n_inner": model.ffn, "vocab_size": model.vocab,
        "n_positions": 1 << 20, "activation_function": "gelu",
    }  # fmt: skip


def main() -> None:
    """Price the runs, print the table and perhaps write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", help="in the columns of `validate`")
    parser.add_argument("--every", type=int, default=1, help="take every n-th run")
    parser.add_argument(
        "--write", action="store_true", help="write data/calibration/plan_steps.yaml"
    )
    options = parser.parse_args()
    reasons: Counter[str] = Counter()
    runs: list[Compared] = []
    for path in options.tables:
        rows = read_table(path.read_text(encoding="utf-8"), str(path))
        runs += compared(read_entries(rows)[:: options.every], reasons)
    print("\n".join(lines(runs)))
    for reason, count in reasons.most_common():
        print(f"{count} left out: {reason}")
    content = calibration(runs)
    print("\n".join(held_lines(runs)))
    if options.write:
        path = Path(data.__file__).parent / "calibration" / "plan_steps.yaml"
        path.write_text(HEAD + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
