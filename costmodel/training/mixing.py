"""What the layers of models are made of, side by side: shares of each kind, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np

from costmodel.training.mixers import MixerKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from costmodel.training.records import TrainingModel

__all__ = ["Mixing"]


@dataclass(frozen=True, slots=True)
class Mixing:
    """What the layers of N runs are made of, each of shape (N,); shares are of all layers."""

    attention: NDArray[np.float64]
    """Share with softmax attention."""

    share: NDArray[np.float64]
    """Share with a mixer without softmax."""

    bare: NDArray[np.float64]
    """Share without a feed-forward block."""

    blocks: NDArray[np.float64]
    """Blocks with a norm and a residual connection of a mean layer: 2 of a transformer."""

    query_gate: NDArray[np.float64]
    """1 where queries come with a gate of their size."""

    expert_hidden: NDArray[np.float64]
    """Width of the rows that routed experts work on."""

    latent: NDArray[np.float64]
    """1 where products make them from the hidden state and back."""

    inward: NDArray[np.float64]
    """Columns of the products into a mixer that its heads share out; products of other widths count
    by their parameters, as of the hidden state."""

    groups: NDArray[np.float64]
    """Heads of keys and queries."""

    group_inward: NDArray[np.float64]
    """Columns of those products for each of these."""

    outward: NDArray[np.float64]
    """Rows of the product out of a mixer."""

    small: NDArray[np.float64]
    flops: NDArray[np.float64]
    around: NDArray[np.float64]
    moved: NDArray[np.float64]
    kept: NDArray[np.float64]
    """See `Mixer`."""

    key_size: NDArray[np.float64]

    @classmethod
    def of(cls, models: Sequence[TrainingModel]) -> Self:
        """Of some models, in their order."""
        columns = [_columns(model) for model in models]
        return cls(*(np.asarray([c[f.name] for c in columns], np.float64) for f in fields(cls)))


def _columns(model: TrainingModel) -> dict[str, float]:
    mixer = model.mixer
    attention = model.layers if model.attention_layers < 0 else model.attention_layers
    count = mixer.layers if mixer else 0
    mixed = min(attention + count, model.layers)
    columns = {
        "attention": attention / model.layers,
        "share": count / model.layers,
        "bare": model.bare_layers / model.layers,
        "blocks": (mixed + model.layers - model.bare_layers) / model.layers,
        "query_gate": float(model.query_gate),
        "expert_hidden": float(model.expert_hidden or model.hidden),
        "latent": float(model.expert_hidden > 0),
        "groups": 1.0,
        "key_size": 128.0,
    }
    names = ("inward", "group_inward", "outward", "small", "flops", "around", "moved", "kept")
    if mixer is None:
        return columns | dict.fromkeys(names, 0.0)
    shared = mixer.kind is not MixerKind.MAMBA
    return columns | {
        "inward": mixer.columns(model.hidden),
        "groups": float(mixer.key_heads),
        "group_inward": 2.0 * mixer.key_size * shared,
        "outward": float(mixer.inner),
        "small": mixer.small(),
        "flops": mixer.flops(),
        "around": mixer.around(),
        "moved": mixer.moved(),
        "kept": mixer.kept(),
        "key_size": float(mixer.key_size),
    }
