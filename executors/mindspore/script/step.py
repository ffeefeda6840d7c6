"""One operator of a case, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mindspore as ms

Cuts = tuple[int, ...]
Primitive = Callable[..., Any]
"""Makes a primitive of MindSpore: its class."""


class NotTranslatedError(ValueError):
    """An operator that has no MindSpore form here; the message says why."""


@dataclass(slots=True)
class Step:
    """What one operator becomes: named values, and an expression over them and the operands.

    The expression refers to operand n as `x<n>` and to a held value as `self.<name>`.
    """

    held: dict[str, Any] = field(default_factory=dict)
    expression: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One operator of a case."""

    op: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Any]]

    @property
    def attributes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.op["attributes"]
        return found

    @property
    def present(self) -> list[int]:
        """Operands that are there."""
        return [i for i, name in enumerate(self.op["inputs"]) if name]

    def dims(self, index: int) -> tuple[int, ...]:
        return tuple(self.tensors[self.op["inputs"][index]]["dims"])

    def result(self, index: int = 0) -> tuple[int, ...]:
        return tuple(self.tensors[self.op["outputs"][index]]["dims"])

    def cuts(self, index: int) -> Cuts:
        found = self.op["cuts"][index]
        return (1,) * len(self.dims(index)) if found is None else tuple(found)

    @property
    def strategy(self) -> tuple[Cuts, ...]:
        return tuple(self.cuts(i) for i in self.present)

    def axis(self, default: int) -> int:
        return int(self.attributes.get("axis", default))


_OTHER_TYPES = {"bool": ms.bool_, "bfloat16": ms.float16}
"""A bfloat16 parameter cannot be made here; nothing is computed, and float16 is as large."""


def sharded(primitive: Any, view: View, expression: str) -> Step:
    """One primitive with the cuts of all operands."""
    return Step({"f": primitive.shard(view.strategy)}, expression)


def dtype_at(view: View, index: int) -> Any:
    """Element type of an operand."""
    return dtype_of(view.tensors[view.op["inputs"][index]]["dtype"])


def dtype_of(name: str) -> Any:
    """MindSpore's name of an element type.

    Raises:
        NotTranslatedError: it has none.
    """
    if name in _OTHER_TYPES:
        return _OTHER_TYPES[name]
    if not hasattr(ms, name):
        raise NotTranslatedError(f"MindSpore has no {name}")
    return getattr(ms, name)
