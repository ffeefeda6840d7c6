"""The numbers: how long a computation or a communication takes, how much memory it needs."""

from costmodel.collectives import Collective, CollectiveModel

__all__ = ["Collective", "CollectiveModel"]
