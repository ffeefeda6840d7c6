"""What each node keeps in memory, and when: saved tensors, temporaries, and the choice to
compute again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ir.dtypes import dtype_bytes
from ir.graph import Op, Tensor
from ir.ops import Engine, lookup
from planner.candidates import OpCandidates
from planner.liveness import Liveness, recomputable
from planner.ports import Port, port_elements
from planner.problem import Interval, NodeTable
from topology.mesh import Mesh

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that a node holds over an interval."""

    nbytes: FloatArray
    """Per candidate, shape (C,)."""
    interval: Interval
    cause: str
    tensor: str = ""
    again_s: FloatArray | None = None
    """Seconds to compute the tensor again instead, per candidate; None if that is not offered."""


@dataclass(slots=True)
class Holdings:
    """Works out holdings on one mesh."""

    liveness: Liveness
    mesh: Mesh
    candidates: Mapping[str, OpCandidates]
    readers: Mapping[str, list[Op]]
    makers: Mapping[str, Op]
    recompute: bool
    _bytes: dict[tuple[int, tuple[int, ...], str], tuple[Port, FloatArray]] = field(
        default_factory=dict
    )

    def local_bytes(self, tensor: Tensor, port: Port) -> FloatArray:
        """Bytes of the largest shard for every candidate, shape (C,)."""
        key = (id(port), tensor.dims, tensor.dtype)
        if key not in self._bytes:
            per_state = port_elements(tensor.dims, port, self.mesh) * dtype_bytes(tensor.dtype)
            self._bytes[key] = (port, np.asarray(per_state[port.of]))
        return self._bytes[key][1]

    def of_operator(self, op: Op) -> list[Holding]:
        """Results and their gradients on the way, then saved tensors that only this operator
        keeps.
        """
        found = self.candidates[op.name]
        position = self.liveness.position[op.name]
        out: list[Holding] = []
        if lookup(op.kind).engine is not Engine.VIEW:
            for name, port in zip(op.outputs, found.results, strict=True):
                if port is not None:
                    out += self._on_the_way(
                        name, position, self.local_bytes(self._tensor(name), port)
                    )
        return out + [
            self.kept(self._tensor(name), port) for name, port in self._owned(op, found).items()
        ]

    def _tensor(self, name: str) -> Tensor:
        return self.liveness.graph.tensors[name]

    def _on_the_way(self, name: str, position: int, nbytes: FloatArray) -> list[Holding]:
        """A result from its making to its last reader, and its gradient on the way back."""
        last = self.liveness.last_use.get(name, position)
        out: list[Holding] = []
        if name not in self.liveness.saved_by:
            out.append(Holding(nbytes, (position, last + 1), "temporaries"))
        if self.liveness.derived and name in self.liveness.gradient:
            back = (self.liveness.backward_point(last), self.liveness.backward_point(position) + 1)
            out.append(Holding(nbytes, back, "temporaries"))
        return out

    def _owned(self, op: Op, found: OpCandidates) -> dict[str, Port]:
        """Saved tensors that this operator keeps: operands that only it reads, results that
        nobody else keeps.
        """
        position = self.liveness.position[op.name]
        saved_by, readers = self.liveness.saved_by, self.readers

        def alone(name: str) -> bool:
            return len(readers.get(name, [])) == 1

        operands = {
            name: port
            for name, port in zip(op.inputs, found.operands, strict=True)
            if port is not None and position in saved_by.get(name, ()) and alone(name)
        }
        results = {
            name: port
            for name, port in zip(op.outputs, found.results, strict=True)
            if port is not None and saved_by.get(name, ()) == (position,) and alone(name)
        }
        return {**operands, **results}

    def kept(self, tensor: Tensor, port: Port) -> Holding:
        """A saved tensor from its making to its last use in the backward pass."""
        liveness = self.liveness
        start = (
            liveness.position[self.makers[tensor.name].name] if tensor.name in self.makers else 0
        )
        nbytes = self.local_bytes(tensor, port)
        whole_s = self._whole_again_s(tensor)
        again = None if whole_s is None else whole_s * nbytes / max(tensor.nbytes, 1)
        return Holding(
            nbytes, (start, liveness.held_until(tensor.name)), "activations", tensor.name, again
        )

    def _whole_again_s(self, tensor: Tensor) -> float | None:
        """Time to make a tensor once more on one device, looking through views; None if it
        cannot be.
        """
        maker = self.makers.get(tensor.name)
        while maker is not None and lookup(maker.kind).engine is Engine.VIEW:
            maker = self.makers.get(maker.inputs[0])
        if not self.recompute or maker is None or not recomputable(maker, self.liveness):
            return None
        return self.candidates[maker.name].whole_forward_s


def table_of(time_s: FloatArray, holdings: list[Holding]) -> NodeTable:
    """Table of a node; where something may be computed again the candidates are doubled, second
    half without it.
    """
    again = [h.again_s for h in holdings if h.again_s is not None]
    if not again:
        return NodeTable(time_s, tuple(h.nbytes for h in holdings))
    slower = time_s + np.sum(again, axis=0)
    memory = tuple(
        np.concatenate([h.nbytes, h.nbytes if h.again_s is None else np.zeros_like(h.nbytes)])
        for h in holdings
    )
    return NodeTable(np.concatenate([time_s, slower]), memory)


def recomputed_names(holdings: list[Holding]) -> tuple[str, ...]:
    """Tensors that the second half of the candidates computes again."""
    return tuple(h.tensor for h in holdings if h.again_s is not None)
