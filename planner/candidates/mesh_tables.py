"""What operators and tensors may be on one mesh, whatever it costs.

Assignments and layouts follow from rules, sizes and the mesh alone. So they serve every lowering of
a process on a mesh: other micro-batches, other links, prices and states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ir.dialects import Dialect
from planner.candidates.layout_tables import LayoutTableMaker
from planner.candidates.offers import Offers
from planner.candidates.tensor_layouts import TensorLayouts
from topology.mesh import Mesh

MESHES_KEPT = 8
"""Meshes whose tables are kept for the next lowering."""


@dataclass(frozen=True, slots=True)
class MeshTables:
    """Assignments of operators and layouts of tensors, each made once."""

    offers: Offers
    ports: LayoutTableMaker
    layouts: TensorLayouts


@lru_cache(maxsize=MESHES_KEPT)
def mesh_tables(mesh: Mesh, dialect: Dialect) -> MeshTables:
    """The tables of a mesh for a target."""
    ports = LayoutTableMaker(dialect.partial_edges)
    return MeshTables(Offers(dialect, mesh), ports, TensorLayouts(mesh, dialect, ports))
