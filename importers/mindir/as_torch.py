"""Primitives that do what an operator of PyTorch does."""

from __future__ import annotations

from importers.torch_export.aten import entry_of
from importers.torch_export.call import Call, Converter
from importers.torch_export.program import ElementType


def aten(target: str) -> Converter:
    """What writes an operator of `torch.ops.aten`; its arguments go by their names there."""
    entry = entry_of(f"aten.{target}" if "." in target else f"aten.{target}.default")
    if entry is None:
        raise ValueError(f"PyTorch's table has no {target}")
    return entry.convert


def cast(call: Call) -> None:
    """In the type that the file notes."""
    call.finish(call.tensor("self"))


def without(call: Call, *names: str) -> None:
    """Forget arguments that say nothing."""
    call.arguments = {k: v for k, v in call.arguments.items() if k not in names}


__all__ = ["ElementType", "aten", "cast", "without"]
