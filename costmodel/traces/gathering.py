"""Kernels of a profile brought together as they are read, so that few are held."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.traces.records import Kernel, Message, Shapes, class_of
from costmodel.traces.spans import together_s, union

__all__ = ["DTYPES", "Gathered", "message_kind"]

MOST_CALLS = 3_000_000
MOST_KINDS = 200_000
_LONGEST_NAME = 400

DTYPES = {
    "float": "float32", "c10::bfloat16": "bfloat16", "bfloat16": "bfloat16", "half": "float16",
    "c10::half": "float16", "float16": "float16", "float32": "float32", "double": "float64",
    "dt_bf16": "bfloat16", "long int": "int64", "int": "int32", "long": "int64",
}  # fmt: skip
"""Element types by their names in profiles, in lower case."""

_KINDS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "broadcast": "broadcast", "collectivepermute": "point_to_point",
    "sendrecv": "point_to_point",
}  # fmt: skip


def message_kind(name: str) -> str:
    """The collective that a kernel's name says; empty for none.

    >>> message_kind("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)")
    'all_reduce'
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    return next((kind for mark, kind in _KINDS.items() if mark in plain), "")


@dataclass(slots=True)
class Gathered:
    """What was seen so far of one file."""

    where: str
    calls: Counter[tuple[str, str, Shapes, str]] = field(default_factory=Counter)
    seconds: Counter[tuple[str, str, Shapes, str]] = field(default_factory=Counter)
    sent: Counter[tuple[str, float, int]] = field(default_factory=Counter)
    sent_s: Counter[tuple[str, float, int]] = field(default_factory=Counter)
    computing: array[float] = field(default_factory=lambda: array("d"))
    """Beginning and end of every kernel in turn, in seconds."""
    sending: array[float] = field(default_factory=lambda: array("d"))

    def kernel(
        self, name: str, seconds: float, operator: str = "", shapes: Shapes = (), dtype: str = ""
    ) -> None:
        """One call, or several that were told together."""
        key = name[:_LONGEST_NAME], operator, shapes, dtype
        self.calls[key] += 1
        self.seconds[key] += seconds  # type: ignore[assignment]  # a Counter of floats
        if len(self.calls) > MOST_KINDS:
            raise CalibrationError(
                f"more than {MOST_KINDS:,} different kernels", self.where, "profile fewer steps"
            )

    def message(self, kind: str, nbytes: float, ranks: int, seconds: float, calls: int = 1) -> None:
        """Calls of a collective."""
        self.sent[kind, nbytes, ranks] += calls
        self.sent_s[kind, nbytes, ranks] += seconds  # type: ignore[assignment]

    def when(self, begin_s: float, end_s: float, *, message: bool) -> None:
        """Where on the time axis a kernel or a message lies."""
        spans = self.sending if message else self.computing
        spans.extend((begin_s, end_s))
        if len(spans) > 2 * MOST_CALLS:
            raise CalibrationError(
                f"more than {MOST_CALLS:,} kernels", self.where, "profile one to three steps"
            )

    def facts(self) -> dict[str, Any]:
        """Fields of a `Trace`.

        Raises:
            CalibrationError: there is no kernel at all.
        """
        if not self.calls and not self.sent:
            raise CalibrationError(
                "there is no kernel in it", self.where,
                "profile a training step, with activities of the device where it has one",
            )  # fmt: skip
        kernels = tuple(
            Kernel(name, class_of(operator or name), n, float(self.seconds[key]), *key[1:])
            for key, n in sorted(self.calls.items(), key=lambda item: repr(item[0]))
            for name, operator in [key[:2]]
        )
        messages = tuple(
            Message(*key, n, float(self.sent_s[key])) for key, n in sorted(self.sent.items())
        )
        return {"kernels": kernels, "messages": messages, **self._times()}

    def _times(self) -> dict[str, float]:
        computing, sending = (
            union(zip(spans[::2], spans[1::2], strict=True))
            for spans in (self.computing, self.sending)
        )
        ends = [end for spans in (computing, sending) for span in spans for end in span]
        if not ends:
            return {}
        return {
            "span_s": max(ends) - min(ends),
            "busy_s": math.fsum(end - begin for begin, end in computing),
            "message_s": math.fsum(end - begin for begin, end in sending),
            "hidden_s": together_s(computing, sending),
        }
