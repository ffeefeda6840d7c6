"""What a request refers to: a model that can be read, a text that somebody has looked up.

Where they come from is for the caller to say. The command line opens files; a service never does
so for a name in a request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from importers.onnx_values import Array
    from ir.graph import OpGraph
    from ir.symbols import Binding, Symbol

ReadModel: TypeAlias = "Callable[[Binding], OpGraph]"
"""Reads a model with sizes for its open dimensions."""
ReadRanges: TypeAlias = "Callable[[Collection[str]], Mapping[str, str]]"
"""Sizes of open dimensions that the model says itself, of those that are not bound."""
ReadNumbers: TypeAlias = "Callable[[Iterable[str], Mapping[str, int]], dict[str, Array]]"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model."""

    name: str
    """What progress and errors call it, e.g. `"gpt2.onnx"`."""
    read: ReadModel
    numbers: ReadNumbers
    """Arrays that the model holds, of tensors, at sizes of the open dimensions."""
    ranges: ReadRanges = lambda _: {}
    open_batch: Callable[[], str | None] = lambda: None
    """Name of the open dimension that is the batch, if the model needs a size for it."""

    def graph(self, bind: Mapping[str, int | Symbol]) -> OpGraph:
        """The operator graph.

        Raises:
            ModelError: it cannot be read.
        """
        return self.read(dict(bind))

    def open_dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions that need a size before the model can be read."""
        from importers.errors import UnboundError  # noqa: PLC0415

        try:
            self.read({})
        except UnboundError as error:
            return tuple(error.sizes)
        return ()


def model_file(path: Path) -> ModelSource:
    """The model in a file, or the published model of this name.

    Raises:
        ModelError: there is neither.
    """
    from importers.model_file import model_format, open_batch  # noqa: PLC0415  brings in numpy

    form = model_format(path)
    read, numbers = partial(form.graph, path), partial(form.numbers, path)
    return ModelSource(
        path.name, read, numbers, partial(form.ranges, path), partial(open_batch, path)
    )


def published_model(name: str) -> ModelSource:
    """A published model; no file is looked for.

    Raises:
        ModelError: no model is published under this name.
    """
    from importers.model_file import published_format  # noqa: PLC0415
    from importers.sizes import check_published  # noqa: PLC0415

    check_published(name)
    path = Path(name)
    form = published_format()
    return ModelSource(name, partial(form.graph, path), partial(form.numbers, path))


@dataclass(frozen=True, slots=True)
class Document:
    """A text with the name under which errors quote it."""

    name: str
    text: str
