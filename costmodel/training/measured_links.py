"""Messages of conventional layouts by the curves that plans have: those of the machine's library.

Constants fitted to training steps go with the closed forms of `two_levels`. Where kernels and
messages take what they take alone (`RunTable.alone`), a message has the curve of its group of ranks
(`collectives.model`), as the same message of a plan has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from costmodel.collectives.kinds import Collective
from costmodel.collectives.model import CollectiveModel
from costmodel.collectives.two_levels import TwoLevels
from costmodel.training.distinct import distinct_rows
from costmodel.training.machines import machine
from topology.catalogue import named_machine
from topology.machine_names import known_machines
from topology.mesh import Mesh, MeshAxis, tier_mesh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from costmodel.collectives.curves import Curve, FloatArray
    from costmodel.collectives.two_levels import TwoLevelGroup
    from topology.cluster import Cluster

__all__ = ["MeasuredLinks"]


@dataclass(frozen=True, slots=True)
class MeasuredLinks(TwoLevels):
    """The links of some machines with the curves of their libraries.

    A group that does not divide the tiers of its machine has the closed form. So has an exchange
    that sends each token once.
    """

    machines: FloatArray | float = 0.0
    """Of each run, by its number in `known_machines()`."""

    def all_gather_s(self, nbytes: FloatArray, group: TwoLevelGroup) -> FloatArray:
        """Seconds of an all-gather with `nbytes` of output."""
        plain = TwoLevels.all_gather_s(self, nbytes, group)
        return self._of_groups((Collective.ALL_GATHER,), nbytes, group, plain)

    def summed_s(
        self, nbytes: FloatArray, group: TwoLevelGroup, split: FloatArray | NDArray[np.bool_]
    ) -> FloatArray:
        """Seconds to add up `nbytes` of every rank so that all have the sum, in between in parts
        where `split`: an all-reduce, or a reduce-scatter and an all-gather.
        """
        plain = TwoLevels.summed_s(self, nbytes, group, split)
        both = Collective.REDUCE_SCATTER, Collective.ALL_GATHER
        parts = self._of_groups(both, nbytes, group, plain)
        whole = self._of_groups((Collective.ALL_REDUCE,), nbytes, group, plain)
        return np.where(np.asarray(split, dtype=np.bool_), parts, whole)

    def all_to_all_s(self, nbytes: FloatArray, group: TwoLevelGroup) -> FloatArray:
        """Seconds of an exchange of `nbytes` held by every rank."""
        plain = TwoLevels.all_to_all_s(self, nbytes, group)
        return self._of_groups((Collective.ALL_TO_ALL,), nbytes, group, plain)

    def bucketed_s(
        self, kind: Collective, nbytes: FloatArray, group: TwoLevelGroup, share: FloatArray
    ) -> FloatArray:
        """Seconds of a collective of `nbytes` that are so much of a bucket (`Curve.time_s`)."""
        once = TwoLevels.all_gather_s(self, nbytes, group)
        plain = (2.0 if kind is Collective.ALL_REDUCE else 1.0) * once
        return self._of_groups((kind,), nbytes, group, plain, share)

    def send_s(self, nbytes: FloatArray, near: NDArray[np.bool_]) -> FloatArray:
        """Seconds to send `nbytes` to one rank, inside the server where it is `near`."""
        shape = np.broadcast_shapes(np.shape(nbytes), np.shape(near), np.shape(self.machines))
        sent, close, machines = (
            np.broadcast_to(each, shape) for each in (nbytes, near, self.machines)
        )
        out = np.zeros(shape)
        for rows, (number, inside) in _kinds(machines, close):
            curve = _send_curve(_name(number), near=inside > 0)
            out[rows] = curve.time_s(np.asarray(sent[rows], dtype=np.float64))
        return out

    def _of_groups(
        self,
        kinds: tuple[Collective, ...],
        nbytes: FloatArray,
        group: TwoLevelGroup,
        plain: FloatArray,
        share: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Seconds of collectives one after the other; `plain` where a group divides no tiers."""
        shape = np.broadcast_shapes(np.shape(plain), np.shape(group.size), np.shape(self.machines))
        columns = (plain, nbytes, self.machines, group.size, group.stride, share)
        out, sent, *of = (np.broadcast_to(each, shape) for each in columns)
        out = np.array(out, dtype=np.float64)
        for rows, (number, size, stride, scale) in _kinds(*of):
            curves = [_curve(_name(number), kind, int(size), int(stride)) for kind in kinds]
            found = [curve for curve in curves if curve is not None]
            if len(found) == len(kinds):
                amounts = np.asarray(sent[rows], dtype=np.float64)
                out[rows] = sum(curve.time_s(amounts, scale) for curve in found)
        return out


def _kinds(*columns: FloatArray) -> Iterator[tuple[NDArray[np.bool_], tuple[float, ...]]]:
    """Rows that are alike, and what they have in common."""
    flat = [np.asarray(column, dtype=np.float64).ravel() for column in columns]
    first, kinds = distinct_rows(*flat)
    shape = np.shape(columns[0])
    for number, row in enumerate(first):
        yield (kinds == number).reshape(shape), tuple(float(column[row]) for column in flat)


def _name(number: float) -> str:
    return tuple(known_machines())[int(number)]


@cache
def _curve(name: str, kind: Collective, size: int, stride: int) -> Curve | None:
    """Seconds of a collective of `size` ranks that are `stride` apart, ranks numbered server by
    server; `None` where they divide no tiers.
    """
    cluster = _cluster(name, size * stride)
    axes: list[tuple[MeshAxis, int]] = []
    inside = 1
    for tier in reversed(range(len(cluster.tiers))):
        end = inside * cluster.tiers[tier].size
        for cut in sorted({c for c in (stride, size * stride) if inside < c < end} | {end}):
            if cut % inside:
                return None
            axes.append((MeshAxis(f"{tier}_{inside}", cut // inside, tier), inside))
            inside = cut
    axes.reverse()
    mesh = Mesh(tuple(axis for axis, _ in axes))
    own = (i for i, (axis, first) in enumerate(axes) if stride <= first < size * stride)
    return CollectiveModel(cluster, mesh).curve(kind, tuple(own))


@cache
def _send_curve(name: str, *, near: bool) -> Curve:
    """Seconds to send to a rank of the innermost tier, or of another server."""
    cluster = _cluster(name, 1 if near else machine(name).server + 1)
    mesh = tier_mesh(cluster)
    model = CollectiveModel(cluster, mesh)
    return model.curve(Collective.POINT_TO_POINT, (len(mesh.axes) - 1 if near else 0,))


def _cluster(name: str, devices: int) -> Cluster:
    """Whole servers with at least so many devices."""
    server = machine(name).server
    return named_machine(known_machines()[name].cluster).cluster(-(-devices // server) * server)
