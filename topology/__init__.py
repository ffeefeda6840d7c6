"""The nouns of the machine: chips, tiers, clusters, and meshes over their ranks."""

from topology.catalogue import chip_names, cluster_names, named_chip, named_cluster, read_cluster
from topology.cluster import Chip, Cluster, Tier, TierKind
from topology.errors import ClusterError, TopologyError, UnitError
from topology.mesh import Mesh, MeshAxis, grouped_meshes, prime_mesh, tier_mesh

__all__ = ["Chip", "Cluster", "ClusterError", "Mesh", "MeshAxis", "Tier", "TierKind"]
__all__ += ["TopologyError", "UnitError", "chip_names", "cluster_names", "grouped_meshes"]
__all__ += ["named_chip", "named_cluster", "prime_mesh", "read_cluster", "tier_mesh"]
