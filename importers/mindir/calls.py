"""A primitive with its arguments at hand: PyTorch's call, with what MindIR says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from importers.traced.call import Argument, Call


@dataclass(slots=True)
class MindCall(Call):
    """A node of a file, and the ONNX nodes that it becomes."""

    known: Mapping[str, Argument] = field(default_factory=dict)
    """Numbers of small constant tensors, by their names: a shape may be one."""

    def get(self, name: str, default: Argument = None) -> Argument:
        """As PyTorch's, numbers of a constant in its place."""
        value = self.arguments.get(name)
        if value is None:
            return default
        return self.known.get(getattr(value, "name", ""), value)

    def int(self, name: str, default: int | None = None) -> int:
        """A number, or a tuple of one."""
        value = self.get(name, default)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, int):
            raise self.fault(f"its argument {name!r} is no integer")
        return value


def cast(call: Call) -> None:
    """In the type that the file notes."""
    call.finish(call.tensor("self"))
