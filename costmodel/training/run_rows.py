"""A run as a row of a table, which reads as the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import data
from costmodel.training.records import Attention, Recompute
from costmodel.training.run_schema import SWITCHES

if TYPE_CHECKING:
    from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun

__all__ = ["row_of"]

_SAID = {
    "compiled": ("uncompiled", "torch.compile"),
    "fuses": ("split-activation", "use-fused-swiglu"),
}
"""Keys of profiles whose runs lack a flag only where notes say so: the flag, and the note."""


def row_of(run: TrainingRun) -> dict[str, str]:
    """The fields of a run as cells by column (`run_schema`), those that are measured empty.

    What the name of a model implies, such as its activation, is left to the name; settings that
    no column has are those that its software usually has.
    """
    cells = _model(run.model) | _layout(run.layout, run.model) | _switches(run)
    notes = [
        note for key, (flag, note) in _SAID.items() if _asks(run, key) and flag not in run.flags
    ]
    found: dict[str, object] = {
        "id": run.name,
        "hardware": run.machine,
        "software": run.profile,
        **cells,
        "attention": "flash" if run.attention is Attention.FLASH else "unfused",
        "dtype": {"fp4": "nvfp4"}.get(run.precision, run.precision),
        "notes": "; ".join(notes),
        "measured_step_time_s": "",
    }
    return {name: str(value) for name, value in found.items()}


def _asks(run: TrainingRun, key: str) -> bool:
    """Whether the profile of a run asks rows for a word."""
    profiles = data.calibration("training_profiles")["profiles"]
    return any(key in each for each in profiles if each["name"] == run.profile)


def _model(model: TrainingModel) -> dict[str, object]:
    sizes: dict[str, object] = {
        "model": model.name,
        "hidden": model.hidden,
        "layers": model.layers,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_size": model.head_size,
        "ffn_hidden": model.ffn,
        "vocab": model.vocab,
        "mtp_layers": model.further,
    }
    if model.window:
        sizes |= {"window": model.window, "window_every": model.global_every}
    if model.experts:
        sizes |= {
            "experts": model.experts,
            "experts_per_token": model.experts_per_token,
            "expert_ffn": model.expert_ffn,
            "shared_experts": round(model.shared_ffn / max(model.expert_ffn, 1)),
            "dense_layers": model.dense_layers,
        }
    return sizes


def _layout(layout: TrainingLayout, model: TrainingModel) -> dict[str, object]:
    cells: dict[str, object] = {
        "seq_len": layout.seq_len,
        "global_batch": layout.global_batch,
        "devices": layout.devices,
        **{name: getattr(layout, name) for name in ("micro_batch", "tp", "pp", "vpp", "dp", "cp")},
        "ep": layout.ep,
        "etp": layout.etp or "",
        "schedule": layout.schedule,
        "stage_layers": ",".join(map(str, layout.stage_layers)),
        "zero_stage": layout.zero_stage,
        "zero_group": layout.zero_group or "",
        "sequence_parallel": "yes" if layout.sequence_parallel else "no",
        "recompute": str(layout.recompute),
        "recompute_layers": "",
    }
    if layout.recompute is Recompute.FULL and layout.recompute_share < 1.0:
        each = layout.recompute_share * model.layers / (layout.pp * layout.vpp)
        cells |= {"recompute": "block", "recompute_layers": max(1, round(each))}
    return cells


def _switches(run: TrainingRun) -> dict[str, object]:
    """Columns of overlap that the run states."""
    return {name: "yes" for name, flag in SWITCHES.items() if flag in run.flags}
