"""Element types, and tensors that go with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor, Replicate

from executors.placement import Array


def torch_dtype(name: str) -> Any:
    """The torch type of an element type of a graph.

    Raises:
        ValueError: torch has none.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch has no element type {name!r}")  # noqa: TRY004  of a file
    return found


def worked_in(name: str, *, double: bool) -> str:
    """The type in which numbers of a type are computed: double precision where these count."""
    return "float64" if double and "float" in name else name


def same_kind(like: Any, tensor: Any) -> Any:
    """A tensor that every device has in full, as a DTensor if what it goes with is one."""
    if not isinstance(like, DTensor):
        return tensor
    everywhere = [Replicate()] * like.device_mesh.ndim
    return DTensor.from_local(tensor, like.device_mesh, everywhere, run_check=False)


def torch_array(array: Array) -> Any:
    """A torch tensor with the numbers of an array."""
    return torch.from_numpy(np.array(array, order="C"))
