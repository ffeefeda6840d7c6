"""Kinds of collective communication."""

from enum import StrEnum

__all__ = ["Collective"]


class Collective(StrEnum):
    """Kinds of communication, and what their `nbytes` counts on each device."""

    ALL_REDUCE = "all_reduce"
    """Bytes of the tensor, which every device has before and after."""

    ALL_GATHER = "all_gather"
    """Bytes of the gathered output."""

    REDUCE_SCATTER = "reduce_scatter"
    """Bytes of the input."""

    ALL_TO_ALL = "all_to_all"
    """Bytes of the local tensor, the same before and after."""

    BROADCAST = "broadcast"
    """Bytes of the tensor."""

    REDUCE = "reduce"
    """Bytes of the tensor, which every device has before and one has after."""

    SCATTER = "scatter"
    """Bytes of the tensor that one device deals out."""

    GATHER = "gather"
    """Bytes of the tensor that one device collects."""

    POINT_TO_POINT = "point_to_point"
    """Bytes sent from one device to one other; of edges, what two neighbours send each other."""
