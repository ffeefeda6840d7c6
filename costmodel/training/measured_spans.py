"""How far runs are from the measured runs of their family, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["Spans", "distances", "spans_of", "unmeasured", "widened"]

Spans: TypeAlias = Mapping[str, Sequence[float]]
"""Least and most of each feature among measured runs."""

_WORDS = {
    "tp": "tensor parallel degree", "pp": "pipeline stages", "vpp": "chunks per stage (VPP)",
    "cp": "context parallel degree", "ep": "expert parallel degree",
    "replicas": "data parallel replicas", "micro_batch": "sequences per micro-batch",
    "seq_len": "sequence length", "cut_seq": "sequence length under context parallelism",
    "hidden": "hidden size", "zero_stage": "ZeRO stage",
}  # fmt: skip
_NOBODY = 1e9
"""Tokens of a sequence that is cut where no measured one is."""


_PER_DOUBLING, _MOST = 0.1, 0.5
"""How much wider intervals are for each doubling, and at most: of 209 runs of other sources with
constants of their own, nine of ten were off by at most 18 % inside, 22 % up to two doublings beyond
what was measured, and 30 % further out."""


def widened(doublings: FloatArray) -> FloatArray:
    """Width of intervals of runs so far from what was measured, over that of others."""
    return np.asarray(1.0 + np.minimum(_PER_DOUBLING * doublings, _MOST))


def _features(table: RunTable, count: int) -> dict[str, FloatArray]:
    """Features of runs by name, each of shape (count,); a sequence that is not cut is of any
    length. A stage of ZeRO is a doubling.
    """
    cut = np.where(table.cp > 1, table.seq_len, _NOBODY)
    replicas = table.dp * table.cp
    stage = np.where(replicas > 1, 2.0**table.zero_stage, 1.0)
    named = {"replicas": replicas, "cut_seq": cut, "zero_stage": stage}
    return {
        name: np.broadcast_to(named.get(name, getattr(table, name, cut)), (count,)).astype(float)
        for name in _WORDS
    }


def spans_of(table: RunTable, count: int) -> dict[str, list[float]]:
    """Least and most of each feature of measured runs."""
    found = {
        name: [float(np.min(values)), float(np.max(values))]
        for name, values in _features(table, count).items()
    }
    found["cut_seq"][1] = _NOBODY
    found["zero_stage"][0] = 1.0  # less is what a single replica has
    return found


def distances(spans: Spans, table: RunTable, count: int) -> FloatArray:
    """Doublings by which runs leave what was measured, all features together; shape (count,)."""
    total = np.zeros(count)
    for name, values in _features(table, count).items():
        if name in spans:
            least, most = spans[name]
            total += np.log2(np.maximum(np.maximum(least / values, values / most), 1.0))
    return total


def unmeasured(spans: Spans, table: RunTable) -> Iterator[str]:
    """What no measured run has of one run, in sentences."""
    for name, (own,) in _features(table, 1).items():
        ends = (*spans.get(name, (own, own)), own)
        least, most, value = np.log2(ends) if name == "zero_stage" else ends
        if value > most:
            yield f"{_WORDS[name]} {value:g}, in measured runs at most {most:g}"
        elif value < least < _NOBODY:
            yield f"{_WORDS[name]} {value:g}, in measured runs at least {least:g}"
