r"""Whether `planner layouts` and `planner search` agree on what fits into memory.

    python -m benchmarks.fits build/fits.jsonl [MODEL ...]

Twelve models, each on six sizes of one machine around the size at which its states fit. By sizes:
is there a conventional layout that fits, with the usual software and with the profile `generic`.
By plans: the lightest of those layouts pinned as a plan; if that does not fit, or there is none, a
free search. Each cell is a line of the file; those that are there are not made again, so the
command may be stopped and started. The table at the end is that of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.software import GENERIC
from costmodel.training.machines import machine
from costmodel.training.records import Recompute, TrainingLayout, TrainingRun
from costmodel.training.sizes import model_parameters
from costmodel.training.stacks import software_flags
from costmodel.training.table import RunTable
from importers.hf_config import import_config
from importers.sizes import configuration
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.options.simulations import LayoutOptions
from planner.requests.search_request import with_restriction
from planner.search import search
from planner.whatif.layouts import PricedLayouts, priced_layouts
from topology.catalogue import named_cluster

H100, A100, ATLAS = "dgx-h100", "dgx-a100", "atlas-800t-a2"
MODELS: Mapping[str, str] = {
    "gpt2": A100, "gpt2-xl": H100, "llama2-7b": ATLAS, "llama3-8b": H100, "gemma-7b": A100,
    "qwen3-8b": ATLAS, "mistral-7b": A100, "qwen3-32b": ATLAS, "llama3-70b": H100,
    "deepseek-v2-lite": A100, "mixtral-8x7b": H100, "qwen3-235b-a22b": H100,
}  # fmt: skip
"""Twelve models, each with a machine."""
_STATES = 16.0
"""Bytes of a parameter with its gradient, master copy and moments."""
_SIZES = 6
_SEQUENCE = 4096
_TIME_LIMIT_S = 120.0


def sizes_of(parameters: float, limit_bytes: float) -> list[int]:
    """Devices: powers of two from half of those whose memory holds the states of a model.

    >>> sizes_of(8e9, 80e9)
    [1, 2, 4, 8, 16, 32]
    """
    first = max(0, int(np.ceil(np.log2(_STATES * parameters / limit_bytes))) - 1)
    return [2 ** (first + more) for more in range(_SIZES)]


def cell(model: str, devices: int, batch: int) -> dict[str, Any]:
    """What both say of one size."""
    own, alone = (_priced(_job(model, batch, name), devices) for name in ("auto", GENERIC.name))
    lightest = _lightest(alone, _job(model, batch, GENERIC.name))
    pinned = None if lightest is None else _plan_bytes(model, devices, batch, lightest)
    free = pinned if pinned is not None else _plan_bytes(model, devices, batch, None)
    return {
        "model": model,
        "devices": devices,
        "sizes": bool(own.fits.any()),
        "generic": bool(alone.fits.any()),
        "least_bytes": float(alone.memory_bytes.min()),
        "limit_bytes": alone.limit_bytes,
        "pinned_bytes": pinned,
        "plan_bytes": free,
    }


def _job(model: str, batch: int, profile: str) -> TrainingRun:
    config = configuration(model)
    asked = LayoutOptions(
        layout=f"batch={batch},seq={_length(config)},micro=1",
        cluster=MODELS[model],
        profile=profile,
    )
    return run_of_layout(asked, config, model)


def _length(config: Mapping[str, object]) -> int:
    return int(str(config.get("n_positions", _SEQUENCE)))


def _priced(job: TrainingRun, devices: int) -> PricedLayouts:
    def flags(layout: TrainingLayout) -> frozenset[str]:
        return software_flags(job.profile, job.machine, job.model.name, layout)

    return priced_layouts(job, devices, flags=flags)


def _lightest(priced: PricedLayouts, job: TrainingRun) -> TrainingLayout | None:
    """Of those that fit the one with least memory, without stages if there is one."""
    for most in (1, np.inf):
        fine = np.flatnonzero(priced.fits & (priced.layouts[:, 2] <= most))
        if len(fine):
            return priced.layout(int(fine[np.argmin(priced.memory_bytes[fine])]), job)
    return None


def _plan_bytes(
    model: str, devices: int, batch: int, layout: TrainingLayout | None
) -> float | None:
    """Peak of the plan pinned to a layout, or of a free search; `None` where none fits."""
    config = configuration(model)
    sizes = {"batch": batch, "sequence": _length(config)}
    graph = import_config({**config, "torch_dtype": "bfloat16"}, "model", "model", sizes)
    request = SearchRequest(
        global_batch=batch, target="torch", time_limit_s=_TIME_LIMIT_S, overlap="none"
    )
    if layout is not None:
        request = pinned_request(request, layout)
    try:
        plan = search(graph, named_cluster(MODELS[model], devices), request)
    except (InfeasibleError, RequestError):
        return None
    return float(plan.estimate.peak_memory_bytes)


def pinned_request(request: SearchRequest, layout: TrainingLayout) -> SearchRequest:
    """The request held to a layout."""
    cut = layout.sequence_parallel or layout.cp > 1
    held = replace(
        request,
        micro_batch=str(layout.micro_batch * layout.dp),
        zero=str(layout.zero_stage),
        recompute="none" if layout.recompute is Recompute.NONE else "full",
        sequence_parallel="on" if cut else "auto",
        context_parallel=str(layout.cp) if layout.cp > 1 else "auto",
        pipeline=str(layout.pp) if layout.pp > 1 else "off",
        interleave=str(layout.vpp) if layout.pp > 1 else "auto",
    )
    parts = [f"tp={layout.tp}", f"dp={layout.dp}"]
    parts += [f"ep={layout.ep}"] * (layout.ep > 1) + ["zero3"] * (layout.zero_stage == 3)
    return with_restriction(held, ",".join(parts), "DEGREES")


def table(cells: list[dict[str, Any]]) -> Iterator[str]:
    """The cells in Markdown: sizes / sizes at `generic` / plan, `+` where something fits."""
    yield "| model | machine | " + " | ".join(f"size {n}" for n in range(1, _SIZES + 1)) + " |"
    yield "|---|---|" + "--:|" * _SIZES
    for model, name in MODELS.items():
        own = sorted((c for c in cells if c["model"] == model), key=lambda c: int(c["devices"]))
        texts = [f"{c['devices']}: {marks(c)}" for c in own]
        if texts:
            yield f"| {model} | {name} | " + " | ".join(texts) + " |"
    agree = sum(c["generic"] == (c["plan_bytes"] is not None) for c in cells)
    yield ""
    yield f"{agree} of {len(cells)} agree"


def marks(found: Mapping[str, Any]) -> str:
    """Three signs of a cell."""
    fits = (found["sizes"], found["generic"], found["plan_bytes"] is not None)
    return "".join("+" if each else "-" for each in fits)


def main() -> None:
    """Make the cells that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="*", help="all if none is named")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.touch()
    cells = [json.loads(line) for line in options.file.read_text().splitlines()]
    known = {(each["model"], each["devices"]) for each in cells}
    for model in options.models or MODELS:
        job = _job(model, 1, GENERIC.name)
        parameters = float(np.ravel(model_parameters(RunTable.of([job])))[0])
        every = sizes_of(parameters, machine(job.machine).usable_bytes)
        for devices in every:
            if (model, devices) in known:
                continue
            found = cell(model, devices, every[-1])
            print(model, devices, marks(found), flush=True)
            cells.append(found)
            with options.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")
    print("\n".join(table(cells)))


if __name__ == "__main__":
    main()
