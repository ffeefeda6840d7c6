r"""What published runs took, in units of what the cost model of plans says of them.

A search prices operators one by one (`planner.lowering.lower`), not layers by fitted constants
(`costmodel.training`). Here that model prices the layouts of published runs of transformers: the
network is built from a config.json of its sizes, one and two layers of it are lowered on the
devices of one stage, tensor parallel ranks split weights, context parallel ranks the tokens of a
sequence and data parallel ranks the batch, experts are spread over neighbouring ranks, and

    step = L / p x layer + ends + m v x send + (p - 1) x (L / (p v) x layer + send)

with all communication in turn, as a search prints it: p stages of v chunks each, m micro-batches,
the layer in brackets and the sends (there and back) those of one. Recomputation adds the forward
pass. Attention runs in one kernel or in several, as it did in the run; of a split context keys and
values are gathered or go round, whichever is faster. Layers with experts and those without count by
their shares.

    python -m benchmarks.plan_steps ../shared/reference/measured_training.csv \
        benchmarks/other_runs.csv --write
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

import data
from benchmarks.calibrate import excluded
from benchmarks.plan_ends import Compared, calibration, held_lines, lines
from benchmarks.plan_layouts import chip_of, cluster_of, filled, split
from benchmarks.plan_networks import config_of
from costmodel.operators.constants import generation_of
from costmodel.training.dataset import measured_medians, read_entries, read_table
from costmodel.training.families import block_of
from costmodel.training.records import Attention, Recompute
from costmodel.training.sizes import expert_parts
from costmodel.training.table import RunTable
from importers.hf_config import import_config
from ir.batch import BatchError
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
    from collections.abc import Iterator, Sequence

    from costmodel.training.dataset import Entry
    from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun
    from ir.plan import PlannedCollective

_DOUBTFUL = {"mindformers-910a", "mindspeed-ci-910b"}
"""Models that do not fit the devices named, truncated models with deterministic kernels."""
HALF_BYTES = 2.0
_NO_LIMIT = 1e15

HEAD = """\
# Seconds of published runs of transformers over what the cost model of plans says of their layouts,
# by kind of run, written by
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
    operators: float

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
            kind=kind_of(run),
            generation=generation_of(chip_of(run)),
            ratio=step_s / found.step_s,
            operator_s=found.operator_s,
        )


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


def priced_step(run: TrainingRun) -> Step:
    """What the cost model of plans says of the layout of a run.

    Raises:
        InexpressibleError, ClusterError, RequestError, BatchError: it cannot be priced.
    """
    layout, model = run.layout, run.model
    count = max(round(layout.micro_batches), 1)
    kinds = [(model.layers - model.dense_layers, replace(model, dense_layers=0))]
    if model.dense_layers:
        kinds.append((model.dense_layers, replace(model, experts=0, experts_per_token=0)))
    found = [(layers, *_layer(run, plain, count)) for layers, plain in kinds]
    layer = _mean([(layers / model.layers, each) for layers, each, _ in found])
    again = layout.recompute_share * layer.forward_s if layout.recompute is Recompute.FULL else 0.0
    ends, share = found[0][2], model.layers / layout.pp
    steady = (layer.step_s + again - layer.once_s) / count
    between_s = sent_s(run)
    stages = share * (layer.step_s + again) + ends.step_s + count * layout.vpp * between_s
    step_s = stages + (layout.pp - 1) * (share * steady / layout.vpp + between_s)
    return Step(step_s, layer.compute_s / count / max(layer.operators, 1))


def _layer(run: TrainingRun, model: TrainingModel, count: int) -> tuple[_Priced, _Priced]:
    """One layer, and the ends of the network."""
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
    layer = two.less(one)
    return layer, one.less(layer)


def _mean(parts: Sequence[tuple[float, _Priced]]) -> _Priced:
    """Layers of several kinds by their shares."""
    step_s, forward_s, once_s, compute_s, operators = (
        sum(share * getattr(each, name) for share, each in parts)
        for name in ("step_s", "forward_s", "once_s", "compute_s", "operators")
    )
    return _Priced(step_s, forward_s, once_s, compute_s, operators)


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
) -> _Priced:
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
    evidence = PlanBuilder(lowered, choice_of(lowered, scheme, ready.batch))
    return _summed(evidence)


def _summed(evidence: PlanBuilder) -> _Priced:
    sent = evidence.collectives()
    estimate = evidence.estimate()
    causes = estimate.time_by_cause
    compute_s = causes.get(Cause.COMPUTE_FORWARD, 0.0)
    once_s = causes.get(Cause.UPDATE, 0.0) + sum(c.time_s for c in sent if _is_once(c))
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
    return sent.cause in {Cause.PARAMETER_GATHER, Cause.GRADIENT_SYNC}


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
