r"""What published runs took, in units of what the cost model of plans says of them.

A search prices operators one by one (`planner.lowering.lower`), not layers by fitted constants
(`costmodel.training`). Here that model prices the layouts of published runs of transformers: the
network is built from a config.json of its sizes, one and two layers of it are lowered on the
devices of one stage, tensor parallel ranks split weights, context parallel ranks the tokens of a
sequence and data parallel ranks the batch, experts are spread over neighbouring ranks, and

    step = L / p x layer + ends + m v x send + (p - 1) x (L / (p v) x layer + send)

with p stages of v chunks each and m micro-batches. Kernels are those that search prices alone; what
software adds to them and hides of messages is fitted (`benchmarks.software_fit`). Recomputation
adds the forward pass. Attention runs in one kernel or in several, as it did in the run; of a split
context keys and values are gathered or go round, whichever is faster. Layers with experts and those
without count by their shares.

    python -m benchmarks.plan_steps ../shared/reference/measured_training.csv \
        benchmarks/other_runs.csv --write
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

import data
from benchmarks.calibrate import excluded
from benchmarks.plan_ends import Compared, ends_of, held_lines
from benchmarks.plan_layouts import chip_of, cluster_of, filled, split
from benchmarks.plan_networks import config_of
from benchmarks.software_fit import (
    KERNELS,
    PARTS,
    Fitted,
    LaidOut,
    error_lines,
    fitted,
    in_turn_s,
    priced_s,
    record,
    without_models,
)
from costmodel.operators.constants import generation_of
from costmodel.plan_overlap import Kind
from costmodel.plan_overlap import kind_of as message_kind
from costmodel.published_steps import SHORT_OPERATOR_S
from costmodel.software import kernel_class
from costmodel.training.dataset import measured_medians, read_entries, read_table
from costmodel.training.families import block_of
from costmodel.training.records import Attention, Recompute
from costmodel.training.sizes import expert_parts
from costmodel.training.table import RunTable
from importers.hf_config import import_config
from ir.batch import BatchError
from ir.ops import lookup
from ir.plan_enums import Cause
from ir.published import CONTEXT_PARALLEL, DENSE, ROUTED
from planner.constraints.schemes import InexpressibleError, choice_of
from planner.lowering.lower import lower
from planner.lowering.lowered import Setting
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import dialect_for, input_layouts
from planner.pipeline.solved import send_s
from planner.request import RequestError, SearchRequest
from planner.search import prepared_model
from topology.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.software_fit import FloatArray
    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun

_DOUBTFUL = {"mindformers-910a", "mindspeed-ci-910b"}
"""Models that do not fit the devices named, truncated models with deterministic kernels."""
HALF_BYTES = 2.0
_NO_LIMIT = 1e15

_MESSAGES: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.GATHER: "gather",
        Kind.AGAIN: "again",
        Kind.REDUCE: "each",
        Kind.SYNC: "once",
        Kind.UPDATED: "updated",
    }
)

HEAD = """\
# Seconds of published runs of transformers over what the cost model of plans says of their layouts:
# over steps in turn of kernels as they take alone, and over steps with the software of the run,
# by kind of run, written by
#     python -m benchmarks.plan_steps ROWS [ROWS ...] --write
# docs/step.md says what it means, docs/fidelity.md how it was measured.
"""
SOFTWARE_HEAD = """\
# Constants of software profiles by generation of chips, and of all runs on such chips, fitted to
# published training steps; do not edit. Their meaning: costmodel/software.py. Written by
#     python -m benchmarks.plan_steps ROWS [ROWS ...] --write
"""


def laid_out(entries: Sequence[Entry], reasons: Counter[str]) -> Iterator[LaidOut]:
    """The runs that can be priced, part by part; why others cannot is counted."""
    measured, aside = measured_medians(entries), excluded()
    for entry, step_s in zip(entries, measured, strict=True):
        if entry.read is None or step_s is None or entry.name in aside:
            continue
        run = entry.read.run
        reason, found = outside(run), None
        try:
            found = None if reason else parts_of(run, step_s)
        except (InexpressibleError, ClusterError, RequestError, BatchError) as error:
            reason = str(error).splitlines()[0]
        if reason or found is None:
            reasons[reason] += 1
            continue
        yield found


def kind_of(run: TrainingRun) -> str:
    """What a plan of this layout is called."""
    if run.model.experts:
        return ROUTED
    return CONTEXT_PARALLEL if run.layout.cp > 1 else DENSE


def outside(run: TrainingRun) -> str:
    """Why a run is not priced; empty if it is."""
    model, layout = run.model, run.layout
    chip, stage = chip_of(run), layout.dp * layout.cp * layout.tp
    faults = {
        "a block whose rows contradict one another": block_of(run) in _DOUBTFUL,
        "8 or 4 bits": run.precision not in {"fp16", "bf16"},
        "state spaces or linear attention": model.mixer is not None,
        "experts without a gate": model.experts > 0 and not model.gated,
        "further tokens predicted": model.further > 0,
        "weights that get no gradient": "frozen" in run.flags,
        "machines joined by a torus": generation_of(chip) == "tpu",
    }
    reason = next((reason for reason, is_so in faults.items() if is_so), "")
    if not reason and filled(chip, stage) > stage:
        return "a stage on parts of servers"
    return reason


def parts_of(run: TrainingRun, measured_s: float) -> LaidOut:
    """What the layout of a run consists of.

    Raises:
        InexpressibleError, ClusterError, RequestError, BatchError: it cannot be priced.
    """
    layout, model = run.layout, run.model
    count = max(round(layout.micro_batches), 1)
    kinds = [(model.layers - model.dense_layers, replace(model, dense_layers=0))]
    if model.dense_layers:
        kinds.append((model.dense_layers, replace(model, experts=0, experts_per_token=0)))
    found = [(layers / model.layers, *_layer(run, plain, count)) for layers, plain in kinds]
    layer = np.sum([share * each for share, each, _ in found], axis=0)
    forward = sum(layer[PARTS.index(f"{kind}_forward")] for kind in KERNELS)
    full = layout.recompute is Recompute.FULL
    return LaidOut(
        name=run.name,
        block=block_of(run),
        model=model.name.lower(),
        kind=kind_of(run),
        generation=generation_of(chip_of(run)),
        profile=run.profile,
        measured_s=measured_s,
        operator_s=forward / count / max(layer[PARTS.index("operators")], 1.0),
        layer=layer,
        ends=found[0][2],
        micro_batches=count,
        stages=layout.pp,
        chunks=layout.vpp,
        layers=model.layers,
        send_s=sent_s(run),
        recomputed=layout.recompute_share if full else 0.0,
    )


def _layer(run: TrainingRun, model: TrainingModel, count: int) -> tuple[FloatArray, FloatArray]:
    """Parts of one layer, and of the ends of the network."""
    plain = replace(model, name="", layers=1, dense_layers=0)
    bare = replace(
        run.layout, global_batch=count, pp=1, vpp=1, recompute=Recompute.NONE, stage_layers=(),
        recompute_share=1.0,
    )  # fmt: skip
    if not plain.experts:
        bare = replace(bare, ep=1)
    split_experts = expert_parts(RunTable.of([run]))[0] > 1
    how = run.attention is not Attention.UNFUSED, bool(split_experts)
    one, two = (_priced(replace(plain, layers=n), bare, chip_of(run), *how) for n in (1, 2))
    return two - one, 2 * one - two


def sent_s(run: TrainingRun) -> float:
    """Seconds in which a micro-batch comes to a stage and its gradient goes back."""
    layout, chip = run.layout, chip_of(run)
    if layout.pp == 1:
        return 0.0
    nbytes = HALF_BYTES * layout.micro_batch * layout.seq_len * run.model.hidden
    nbytes /= layout.tp * layout.cp
    return 2 * send_s(cluster_of(chip, filled(chip, layout.devices)), nbytes)


@cache
def _priced(
    model: TrainingModel, layout: TrainingLayout, chip: str, fused: bool, split_experts: bool
) -> FloatArray:
    """The layers of a model on the devices of one stage; `global_batch` counts micro-batches."""
    cluster = cluster_of(chip, layout.dp * layout.cp * layout.tp)
    batch = layout.micro_batch * layout.dp
    request = SearchRequest(
        batch=batch, target="generic", memory_limit_bytes=_NO_LIMIT, fused_attention=fused
    )
    sizes = {"batch": batch, "sequence": layout.seq_len}
    halves = "bfloat16" if cluster.chip.supports("bfloat16") else "float16"
    graph = import_config({**config_of(model), "torch_dtype": halves}, "run", "run", sizes)
    ready, dialect = prepared_model(graph, cluster, request), dialect_for(request, cluster.devices)
    mesh, scheme = split(cluster, layout, split_experts=split_experts)
    setting = Setting(
        cluster, mesh, dialect, training=True, optimizer=request.optimizer,
        input_layouts=input_layouts(ready.liveness.graph, mesh, dialect, request),
        memory_limit_bytes=_NO_LIMIT, micro_batches=layout.global_batch,
    )  # fmt: skip
    lowered = lower(ready.liveness, replace(setting, ring_attention=layout.cp > 1))
    if isinstance(ready.batch, str):
        raise InexpressibleError(ready.batch)
    return _summed(PlanBuilder(lowered, choice_of(lowered, scheme, ready.batch)))


def _summed(builder: PlanBuilder) -> FloatArray:
    """Seconds of a step by part, and how many operators run."""
    out = dict.fromkeys(PARTS, 0.0)
    for op in builder.operators():
        kind = kernel_class(lookup(op.kind))
        out[f"{kind}_forward"] += op.compute_s - op.backward_s
        out[f"{kind}_backward"] += op.backward_s
        out["operators"] += op.compute_s > 0
    micro_batches = builder.micro_batches
    for sent in builder.collectives():
        backward_s = sent.time_s * sent.backward / sent.count
        kind_of_message = message_kind(sent, micro_batches)
        if kind_of_message is not None:
            out[_MESSAGES[kind_of_message]] += sent.time_s
        else:
            out["activations_forward"] += sent.time_s - backward_s
            out["activations_backward"] += backward_s
    out["update"] = builder.estimate().time_by_cause.get(Cause.UPDATE, 0.0)
    return np.array([out[name] for name in PARTS])


def calibration(runs: Sequence[LaidOut], found: Fitted) -> dict[str, Any]:
    """Ends of what runs took over steps in turn, and over steps with their software."""
    in_turn = compared(runs, in_turn_s(runs))
    return {
        "schema_version": 3,
        "in_turn": ends_of([run for run in in_turn if run.operator_s >= SHORT_OPERATOR_S]),
        "software": ends_of(compared(runs, priced_s(found, runs))),
    }


def compared(runs: Sequence[LaidOut], priced: FloatArray) -> list[Compared]:
    """Runs beside what is said of them."""
    return [
        Compared(
            run.name, run.block, run.model, run.kind, run.generation,
            run.measured_s / float(step_s), run.operator_s,
        )
        for run, step_s in zip(runs, priced, strict=True)
    ]  # fmt: skip


def main() -> None:
    """Price the runs, fit the software, print the tables and perhaps write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+", help="in the columns of `validate`")
    parser.add_argument("--every", type=int, default=1, help="take every n-th run")
    parser.add_argument(
        "--write", action="store_true", help="write software.yaml and plan_steps.yaml"
    )
    options = parser.parse_args()
    reasons: Counter[str] = Counter()
    runs: list[LaidOut] = []
    for path in options.tables:
        rows = read_table(path.read_text(encoding="utf-8"), str(path))
        runs += laid_out(read_entries(rows)[:: options.every], reasons)
    found = fitted(runs)
    print("\n".join(error_lines(runs, priced_s(found, runs), without_models(runs))))
    content = calibration(runs, found)
    for name in ("in_turn", "software"):
        steps = in_turn_s(runs) if name == "in_turn" else priced_s(found, runs)
        print(f"\n{name}", *held_lines(compared(runs, steps)), sep="\n")
    for reason, count in reasons.most_common():
        print(f"{count} left out: {reason}")
    if options.write:
        folder = Path(data.__file__).parent / "calibration"
        for name, head, values in (
            ("plan_steps", HEAD, content), ("software", SOFTWARE_HEAD, record(found)),
        ):  # fmt: skip
            text = head + yaml.safe_dump(values, sort_keys=False)
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
