"""What the ranks of a new checkpoint need of the slices of the old one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from executors.checkpoint.entries import raw_dtype
from executors.checkpoint.pairing import Wanted
from ir.slicing import common_box
from ir.transfers import Need


def needs(wanted: Iterable[Wanted]) -> Iterator[Need]:
    """Boxes of source tensors, each with the new ranks that must have it.

    Rank r of the new job is taken to run where rank r of the old one ran.
    """
    for each in wanted:
        for origin in each.origins:
            item_bytes = raw_dtype(origin.tensor.dtype).itemsize
            for box, ranks in zip(each.slices.boxes, each.slices.ranks, strict=True):
                shared = common_box(box, origin.at)
                if shared is not None:
                    old = origin.tensor.slices
                    yield Need(old, origin.in_source(shared), ranks, item_bytes)
