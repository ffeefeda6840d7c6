"""Time of collective communication. Every formula of it stands in this package and nowhere else.

Of the plain formulas up: `algorithms` inside one tier, `hierarchy` over tiers, `hccl` and `nccl`
as those libraries choose, `model` for the groups of a mesh, `contention` for any traffic,
`strided_groups` for ranks at equal distances, `visits` for the places to which a token goes.
"""

from costmodel.collectives.curves import Curve, CurveTable
from costmodel.collectives.kinds import Collective
from costmodel.collectives.model import CollectiveModel, GroupTier, forced

__all__ = ["Collective", "CollectiveModel", "Curve", "CurveTable", "GroupTier", "forced"]
