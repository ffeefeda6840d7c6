"""Transformers from their sizes: an operator graph as an exporter would have traced it."""

from importers.transformers.network import build_network, constant_numbers
from importers.transformers.records import (
    Attention,
    Entry,
    Experts,
    FeedForward,
    Head,
    Latent,
    MixerSizes,
    Names,
    Network,
    Norm,
    Stack,
)

__all__ = [
    "Attention",
    "Entry",
    "Experts",
    "FeedForward",
    "Head",
    "Latent",
    "MixerSizes",
    "Names",
    "Network",
    "Norm",
    "Stack",
    "build_network",
    "constant_numbers",
]
