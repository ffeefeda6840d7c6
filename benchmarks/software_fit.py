"""Constants of software profiles, fitted to what published runs took and their kernels take alone.

Every constant has a prior and physical limits. Those of a profile on a generation of chips start
from all runs on such chips, and these from all runs, so that a few runs move little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

from costmodel.operators.constants import POOLED
from costmodel.software import SoftwareProfile, is_one_graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

KERNELS = ("products", "attention", "experts", "streams")
PARTS = (
    *(f"{kind}_{direction}" for kind in KERNELS for direction in ("forward", "backward")),
    "activations_forward", "activations_backward",
    "gather", "again", "each", "once", "updated", "update", "operators",
)  # fmt: skip
"""What a layer does in a step: seconds of kernels and messages by pass, and operators issued."""
CONSTANTS = tuple(each.name for each in fields(SoftwareProfile) if each.type == "float")


@dataclass(frozen=True, slots=True)
class _Constant:
    start: float
    spread: float
    """Standard deviation of the prior."""
    least: float
    most: float


_PRIORS = {
    "products": _Constant(1.05, 0.15, 1.0, 1.6),
    "attention": _Constant(1.0, 0.3, 0.7, 2.0),
    "experts": _Constant(1.3, 0.6, 0.8, 4.0),
    "streams": _Constant(1.0, 0.4, 0.4, 2.5),
    "gathers_shown": _Constant(0.15, 0.2, 0.0, 0.6),
    "sync_shown": _Constant(0.3, 0.3, 0.0, 1.0),
    "tensor_hidden": _Constant(0.0, 0.2, 0.0, 0.8),
    "host_s": _Constant(3e-5, 5e-5, 0.0, 5e-4),
}
"""Products are never faster than alone; what shows of a gather is at most what Galvatron's factor
of 1.3 for computation and communication side by side allows of both."""
_HIDES_TENSOR = {"megatron-core": 0.4}
"""Software that hides messages of tensor parallelism, and the share to begin with. Megatron-LM of
2020 to 2022, FSDP and MindSpore wait for them."""
_ERROR = 0.05
"""Relative error from which on a run counts less than its square."""
_EQUAL_RUNS = 60


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A published run, and what its layout consists of in a layer and at the network's ends."""

    name: str
    block: str
    model: str
    kind: str
    """One of `ir.published.KINDS`."""
    generation: str
    profile: str
    measured_s: float
    operator_s: float
    """Mean of a forward operator."""
    layer: FloatArray
    """Shape (PARTS,), of all micro-batches."""
    ends: FloatArray
    micro_batches: int
    stages: int
    chunks: int
    layers: int
    send_s: float
    """Of a micro-batch to the next stage and of its gradient back."""
    recomputed: float
    """Share of the layers that are computed again."""


def steps_s(runs: Sequence[LaidOut], constants: FloatArray) -> FloatArray:
    """Seconds of the steps of runs, shape (N,).

    The step of `costmodel.overlap` where all layers are alike:

        stages = L / p x layer + ends + m v x send
        step = stages + (p - 1) x (L / (p v) x steady layer + send)

    Args:
        runs: N of them.
        constants: in the order of `CONSTANTS`, shape (constants,) or (N, constants).
    """
    own = dict(zip(CONSTANTS, np.moveaxis(constants, -1, 0), strict=True))
    micro, stages, chunks, layers, send_s, again = (
        np.array([getattr(run, name) for run in runs], dtype=np.float64)
        for name in ("micro_batches", "stages", "chunks", "layers", "send_s", "recomputed")
    )
    share = layers / stages
    steady_s, once_s = _layer_s(np.stack([run.layer for run in runs]), own, micro, again)
    ends_s, ends_once_s = _layer_s(np.stack([run.ends for run in runs]), own, micro, again)
    at_work = share * (micro * steady_s + once_s) + micro * ends_s + ends_once_s
    at_work += micro * chunks * send_s
    return np.asarray(at_work + (stages - 1) * (share * steady_s / chunks + send_s))


def _layer_s(
    parts: FloatArray, own: dict[str, FloatArray], micro: FloatArray, again: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Seconds of both passes of a micro-batch, and of what happens once in a step."""
    of = dict(zip(PARTS, np.maximum(parts.T, 0.0), strict=True))

    def kernels(direction: str) -> FloatArray:
        found = sum(own[kind] * of[f"{kind}_{direction}"] for kind in KERNELS)
        return np.asarray(found / micro)

    shown, once_shown = own["gathers_shown"], own["sync_shown"]
    issued = own["host_s"] * of["operators"]
    sent = [
        (1.0 - own["tensor_hidden"]) * of[f"activations_{direction}"] / micro
        for direction in ("forward", "backward")
    ]
    forward = np.maximum(kernels("forward"), issued)
    backward = kernels("backward") + again * (kernels("forward") + sent[0])
    backward = np.maximum(backward, issued)
    gather, behind = of["gather"] / micro, (of["again"] + of["each"]) / micro
    first = np.maximum(forward, (1.0 - shown) * gather)
    second = np.maximum(backward, (1.0 - shown) * behind)
    steady = first + second + sent[0] + sent[1] + shown * (gather + behind)
    more_first = (1.0 - shown) * gather + (1.0 - once_shown) * of["updated"]
    more_second = (1.0 - shown) * behind + (1.0 - once_shown) * of["once"]
    once = np.maximum(more_first, forward) - first + np.maximum(more_second, backward) - second
    once += once_shown * (of["once"] + of["updated"]) + of["update"]
    return np.asarray(steady), np.asarray(once)


def in_turn_s(runs: Sequence[LaidOut]) -> FloatArray:
    """The same of kernels as alone with all messages in turn, shape (N,)."""
    constants = dict.fromkeys(CONSTANTS, 0.0)
    constants |= dict.fromkeys((*KERNELS, "gathers_shown", "sync_shown"), 1.0)
    return steps_s(runs, np.array([constants[name] for name in CONSTANTS]))


Fitted = dict[tuple[str, str], "FloatArray"]
"""Constants by profile and generation; the empty profile has those of all."""


def fitted(runs: Sequence[LaidOut]) -> Fitted:
    """Constants of all runs, of each generation, and of each profile on each generation."""
    start = np.array([_PRIORS[name].start for name in CONSTANTS])
    start[CONSTANTS.index("tensor_hidden")] = 0.0
    out = {("", POOLED): _fit(runs, start, "")}
    for generation in sorted({run.generation for run in runs}):
        own = [run for run in runs if run.generation == generation]
        out["", generation] = _fit(own, out["", POOLED], "")
        for profile in sorted({run.profile for run in own}):
            alike = [run for run in own if run.profile == profile]
            out[profile, generation] = _fit(alike, out["", generation], profile)
    return out


def constants_of(found: Fitted, run: LaidOut) -> FloatArray:
    """Those of a run: of its profile on its chips, else of all on such chips, else of all."""
    keys = ((run.profile, run.generation), ("", run.generation), ("", POOLED))
    return next(found[key] for key in keys if key in found)


def priced_s(found: Fitted, runs: Sequence[LaidOut]) -> FloatArray:
    """Seconds of runs with the constants of each, shape (N,)."""
    return steps_s(runs, np.stack([constants_of(found, run) for run in runs]))


def _fit(runs: Sequence[LaidOut], start: FloatArray, profile: str) -> FloatArray:
    prior = start.copy()
    hides, host = profile in _HIDES_TENSOR, CONSTANTS.index("host_s")
    if is_one_graph(profile):
        prior[host] = 0.0
    if hides:
        prior[CONSTANTS.index("tensor_hidden")] = _HIDES_TENSOR[profile]
    fixed = {"tensor_hidden": not hides, "host_s": is_one_graph(profile)}
    free = [i for i, name in enumerate(CONSTANTS) if not fixed.get(name)]
    limits = [(_PRIORS[name].least, _PRIORS[name].most) for name in CONSTANTS]
    spread = np.array([_PRIORS[name].spread for name in CONSTANTS])[free]
    low, high = np.array(limits).T[:, free]
    counts = Counter(run.block for run in runs)
    weight = np.sqrt([min(1.0, _EQUAL_RUNS / counts[run.block]) for run in runs])
    measured = np.array([run.measured_s for run in runs])

    def full(values: FloatArray) -> FloatArray:
        out = prior.copy()
        out[free] = values
        return out

    def residuals(values: FloatArray) -> FloatArray:
        error = np.log(measured / steps_s(runs, full(values))) * weight / _ERROR
        robust = np.sign(error) * np.sqrt(2.0 * (np.sqrt(1.0 + error**2) - 1.0))
        return np.concatenate([robust, (values - prior[free]) / spread])

    begin = np.clip(prior[free], low + 1e-9, high - 1e-9)
    found = least_squares(residuals, begin, bounds=(low, high), x_scale=spread)
    return full(np.asarray(found.x))


def without_models(runs: Sequence[LaidOut], folds: int = 12) -> FloatArray:
    """Seconds of every run with constants fitted without its model, shape (N,)."""
    models = sorted({run.model for run in runs})
    out = np.zeros(len(runs))
    for fold in range(folds):
        left_out = set(models[fold::folds])
        here = [n for n, run in enumerate(runs) if run.model in left_out]
        if here:
            found = fitted([run for run in runs if run.model not in left_out])
            out[here] = priced_s(found, [runs[n] for n in here])
    return out


def record(found: Fitted) -> dict[str, Any]:
    """The file that the package ships."""
    out: dict[str, Any] = {"schema_version": 1, "all": {}, "profiles": {}}
    for (profile, generation), values in sorted(found.items()):
        own = out["profiles"].setdefault(profile, {}) if profile else out["all"]
        pairs = zip(CONSTANTS, values.tolist(), strict=True)
        own[generation] = {name: float(f"{value:.4g}") for name, value in pairs}
    return out


def error_lines(runs: Sequence[LaidOut], priced: FloatArray, unseen: FloatArray) -> Iterator[str]:
    """Errors by profile and generation, as fitted and with models left out, in Markdown."""
    yield "| profile or kind | generation | runs | median, 90th percentile | models left out |"
    yield "|---|---|--:|--:|--:|"
    measured = np.array([run.measured_s for run in runs])
    named = [{(run.kind, ""), (run.profile, run.generation)} for run in runs]
    for profile, generation in sorted(set().union(*named)):
        own = np.array([(profile, generation) in names for names in named])
        texts = [_error_text(measured[own] / each[own]) for each in (priced, unseen)]
        yield f"| {profile} | {generation} | {own.sum()} | {' | '.join(texts)} |"


def _error_text(ratios: FloatArray) -> str:
    errors = 100 * np.abs(ratios - 1.0)
    return f"{np.median(errors):.1f}, {np.quantile(errors, 0.9):.1f} %"
