"""The time of a step with overlap: what nothing hides, and the longest of what works side by side.

A pass goes through the layers of a stage. While a layer computes, the parameters of the next one
are gathered, the gradients of the one before are reduced and the host issues its operators, so each
layer is a window in which compute, the links of every tier and the host work side by side: it takes
as long as the one that has most to do. Forward and backward passes have windows of their own, and
so has of each the pass beside which more is sent, as it is what happens once in a step:

    T = fixed + sum over windows w of times_w x max over resources r of load_wr

Every load is a sum over operators and messages. With prices on the resources of a window, none
below 0 and together 1, a weighted mean takes the place of the largest: that is a sum of the same
terms, which no choice makes less than T (weak duality), so its least value is a lower bound.

Messages of the first layer stand at the ends of the step, where nothing runs beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.buckets import BUCKET_BYTES
from costmodel.software import GENERIC, SoftwareProfile
from ir.graph import Op, Role, Tensor

FloatArray: TypeAlias = NDArray[np.float64]

COMPUTE = 0
"""Number of the compute stream among the resources of a window; behind it stand the tiers, and the
host at last where it counts."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Where each load stands among the columns of a step.

    A collective holds the links of every tier that it crosses for all of its time.
    """

    tiers: int

    FIXED = 0
    """Exposed: what nothing hides."""
    FORWARD = 1
    """Computation of a forward pass."""
    BACKWARD = 2
    """The same of a backward pass, with what it computes again."""
    HOST = 3
    """Issuing the operators of a pass."""

    @property
    def count(self) -> int:
        """Number of columns."""
        return 4 + 5 * self.tiers

    @property
    def gather(self) -> slice:
        """Parameters gathered for a forward pass, by tier."""
        return self._of(0)

    @property
    def again(self) -> slice:
        """Parameters gathered again for a backward pass, by tier."""
        return self._of(1)

    @property
    def reduce(self) -> slice:
        """Gradients that are reduced in every micro-batch, by tier."""
        return self._of(2)

    @property
    def sync(self) -> slice:
        """Gradients that are reduced once in a step, beside the last backward pass, by tier."""
        return self._of(3)

    @property
    def updated(self) -> slice:
        """Updated parameters that are gathered once in a step, beside the first forward pass of the
        next step, by tier.
        """
        return self._of(4)

    def _of(self, number: int) -> slice:
        first = 4 + number * self.tiers
        return slice(first, first + self.tiers)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What works side by side."""

    times: float
    """How often it comes in what is priced."""
    resources: FloatArray
    """The loads that each resource adds up, 0 or 1; shape (resources, columns)."""


@dataclass(frozen=True)
class StepForm:
    """How the time of a micro-batch, or of a step of one, follows from its loads."""

    tiers: int
    micro_batches: int = 1
    """Of a step. What happens once in it counts by its share in each."""
    is_steady: bool = False
    """Whether what happens once in a step is left out."""
    software: SoftwareProfile = GENERIC
    """What of messages shows, and what the host costs."""

    @property
    def has_host(self) -> bool:
        """Whether the host is a resource."""
        return self.software.host_s > 0

    @property
    def resources(self) -> int:
        """What works side by side: compute, the links of each tier, and perhaps the host."""
        return 1 + self.tiers + self.has_host

    @property
    def loads(self) -> Loads:
        """The columns."""
        return Loads(self.tiers)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Forward and backward passes: those that are alike, then the first and the last."""
        at, most = self.loads, self.micro_batches
        passes = (
            (at.FORWARD, (at.gather,), at.updated),
            (at.BACKWARD, (at.again, at.reduce), at.sync),
        )
        once = 0.0 if self.is_steady else 1.0 / most
        return tuple(
            Window(times, self._resources(compute, *beside))
            for compute, each, apart in passes
            for times, beside in ((1.0 - once, each), (once, (*each, apart)))
            if times > 0
        )

    def _resources(self, compute: int, *beside: slice) -> FloatArray:
        out = np.zeros((self.resources, self.loads.count))
        out[COMPUTE, compute] = 1.0
        for columns in beside:
            out[1 : 1 + self.tiers, columns] = np.eye(self.tiers)
        if self.has_host:
            out[-1, Loads.HOST] = 1.0
        return out

    @cached_property
    def _every(self) -> FloatArray:
        """The resources of all windows, shape (windows, resources, columns)."""
        return np.stack([window.resources for window in self.windows])

    @cached_property
    def _times(self) -> FloatArray:
        """How often each comes, shape (windows,)."""
        return np.array([window.times for window in self.windows])

    def windows_s(self, loads: FloatArray) -> FloatArray:
        """Seconds that each resource works in each window, shape (..., windows, resources).

        Args:
            loads: shape (..., columns).
        """
        return np.asarray(np.einsum("wrk,...k->...wr", self._every, loads), dtype=np.float64)

    def time_s(self, loads: FloatArray) -> FloatArray:
        """Seconds with overlap, shape (...).

        Args:
            loads: shape (..., columns).
        """
        longest = self.windows_s(loads).max(axis=-1)
        return np.asarray(loads[..., Loads.FIXED] + longest @ self._times, dtype=np.float64)

    def all_on_compute(self) -> FloatArray:
        """Prices at which whatever can hide costs nothing, shape (windows, resources)."""
        out = np.zeros((len(self.windows), self.resources))
        out[:, COMPUTE] = 1.0
        return out

    def weights(self, prices: FloatArray) -> FloatArray:
        """What each load counts under prices, shape (columns,).

        Args:
            prices: shape (windows, resources); those of a window add up to 1.
        """
        out = np.zeros(self.loads.count)
        out[Loads.FIXED] = 1.0
        for window, own in zip(self.windows, prices, strict=True):
            out += window.times * (own @ window.resources)
        return out


@dataclass(frozen=True)
class Layers:
    """The layers of all stages, numbered through, and what runs before and after each."""

    before: tuple[int, ...]
    """The layer before in the same stage; -1 of the first."""

    @cached_property
    def after(self) -> tuple[int, ...]:
        """The layer behind; -1 of the last."""
        found = {layer: number for number, layer in enumerate(self.before)}
        return tuple(found.get(number, -1) for number in range(len(self.before)))

    def targets(self, at: Loads) -> Iterator[tuple[int, slice, int, slice]]:
        """Where messages travel: layer and columns that they are of, layer and columns that they
        are beside. Those that stand at an end are nowhere beside anything.
        """
        for layer, before in enumerate(self.before):
            after = self.after[layer]
            for own in (at.gather, at.reduce, at.sync, at.updated):
                yield layer, own, before, own
            # The last layer comes first backward: it is gathered again beside its forward pass.
            yield layer, at.again, *((after, at.again) if after >= 0 else (layer, at.gather))

    def windows(self, at: Loads, loads: FloatArray) -> FloatArray:
        """Loads of the windows, from those of the layers that they are of.

        Args:
            at: the columns.
            loads: shape (..., layers, columns).
        """
        out = loads.copy()
        out[..., Loads.HOST + 1 :] = 0.0
        for layer, own, beside, columns in self.targets(at):
            if beside >= 0:
                out[..., beside, columns] += loads[..., layer, own]
        return out

    def weights(self, at: Loads, weights: FloatArray) -> FloatArray:
        """What each load of a layer counts, from what each load of a window does, so that counted
        loads are the same either way.

        Args:
            at: the columns.
            weights: shape (layers, columns).
        """
        out = weights.copy()
        for layer, own, beside, columns in self.targets(at):
            out[layer, own] = weights[beside, columns] if beside >= 0 else 0.0
        return out


LAYERS = 32
"""Stretches that a network without names of layers is taken for."""


def layer_numbers(ops: Sequence[Op], tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The layer of every operator, counted from 0 in their order.

    Layers are told by the first number in scopes, such as `model.layers.3`; what comes before the
    first one is part of it, what comes behind the last is a layer of its own. Where scopes tell
    none, stretches of alike many bytes of parameters stand for them.

    Args:
        ops: of a stage, in order.
        tensors: by name.
    """
    keys = [_layer_key(op.scope) for op in ops]
    named = [number for number, key in enumerate(keys) if key]
    if not named or len(set(keys)) < 3:
        return _stretches(ops, tensors)
    out, layer, current = [], 0, keys[named[0]]
    for number, key in enumerate(keys):
        if (key and key != current) or number == named[-1] + 1:
            layer, current = layer + 1, key
        out.append(layer)
    return tuple(out) if layer < 4 * len(set(keys)) else _stretches(ops, tensors)


def _layer_key(scope: str) -> str:
    """The scope up to its first number; empty without one.

    >>> _layer_key("model.layers.3.mlp"), _layer_key("lm_head")
    ('model.layers.3', '')
    """
    parts = scope.split(".")
    first = next((number for number, part in enumerate(parts) if part.isdecimal()), None)
    return "" if first is None else ".".join(parts[: first + 1])


def _stretches(ops: Sequence[Op], tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    read = [dict.fromkeys(n for n in op.inputs if n) for op in ops]
    seen: set[str] = set()
    sizes = []
    for names in read:
        new = [n for n in names if n not in seen and tensors[n].role is Role.PARAMETER]
        seen.update(new)
        sizes.append(sum(tensors[name].nbytes for name in new))
    # A stretch has the parameters of one bucket of a gather at least.
    each = max(sum(sizes) / LAYERS, BUCKET_BYTES)
    out, layer, held = [], 0, 0.0
    for size in sizes:
        if held >= each:
            layer, held = layer + 1, 0.0
        out.append(layer)
        held += size
    return tuple(out)


SENT_ALONE = 100_000
"""Elements below which a parameter hides nothing: what its messages take is their start, and it
rests whole unless memory wants it in parts.
Source: DeepSpeed, `stage3_param_persistence_threshold`."""
