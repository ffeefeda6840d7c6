"""The primitives of a MindIR file by their full names: what MindSpore's strategy files go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from importers.mindir.file import open_model
from importers.mindir.flattening import Flat, Group, Ref, Value, flattened, live
from importers.mindir.parsing import parsed
from importers.mindir.program import Stored, TensorType
from importers.mindir.sizes import sized
from importers.onnx import blamed
from ir.file_primitives import FilePrimitive


def listed_primitives(
    path: Path, bind: Mapping[str, int] | None = None
) -> tuple[FilePrimitive, ...]:
    """The primitives that the results of a file depend on, in order.

    Args:
        path: the file.
        bind: sizes of its open dimensions.

    Raises:
        ModelError: the file cannot be read.
    """
    with blamed(str(path)), open_model(path) as model:
        return primitives_of(sized(flattened(parsed(model, path.name)), bind or {}))


def primitives_of(flat: Flat) -> tuple[FilePrimitive, ...]:
    """The primitives that the results of a program of known sizes depend on, in order."""
    known = _Known(flat)
    return tuple(
        FilePrimitive(step.name, step.target, *known.operands(step.inputs))
        for step, _ in live(flat)
    )


class _Known:
    """Where every value comes from, and its dims."""

    def __init__(self, flat: Flat) -> None:
        self.dims = {name: kind.dims for name, kind in flat.inputs.items()}
        self.dims |= {name: stored.type.dims for name, stored in flat.parameters.items()}
        self.maker = {name: name.partition(":")[2] or name for name in flat.inputs}
        self.maker |= {name: stored.name for name, stored in flat.parameters.items()}
        for step in flat.steps:
            for value, kind in step.results:
                if isinstance(kind, TensorType):
                    self.dims[value], self.maker[value] = kind.dims, step.name

    def operands(
        self, values: tuple[Value, ...]
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
        found = [each for value in values for each in self._tensors(value)]
        return tuple(dims for dims, _ in found), tuple(maker for _, maker in found)

    def _tensors(self, value: Value) -> Iterator[tuple[tuple[int, ...], str]]:
        if isinstance(value, Ref) and value.name in self.dims:
            yield self.dims[value.name], self.maker[value.name]
        elif isinstance(value, Stored):
            yield value.type.dims, ""
        elif isinstance(value, Group):
            for item in value.items:
                yield from self._tensors(item)
