"""A program under translation: steps over tensors, constants known by their numbers.

Kinds are those of ONNX and a few that ONNX lacks (`Rsqrt`, `Erfc`), which emission writes out.
Equal steps are one, and what follows from small constants is computed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from importers.stablehlo.folding import folded, simplified
from importers.stablehlo.numbers import numpy_type
from importers.traced.writer import Attribute, Builder, Step
from ir.graph import Tensor

Array: TypeAlias = NDArray[Any]
MAX_FOLDED = 1 << 16
"""Constants with more elements are left to steps."""


@dataclass(frozen=True, slots=True)
class View(Tensor):
    """A value of the program: a tensor, by its name, with the dims that the program sees."""

    axes: tuple[int | None, ...] = ()
    """Dimension of the tensor for each; None where the tensor has none and is repeated. A dimension
    of the tensor that is not named here has size one.
    """


@dataclass(slots=True)
class Draft(Builder):
    """Steps of which equal ones are one; constants are known by their numbers."""

    numbers: dict[str, Array] = field(default_factory=dict)
    """Constants whose numbers are known."""
    outside: set[str] = field(default_factory=set)
    """Constants whose numbers are too many to be read."""
    makers: dict[str, Step] = field(default_factory=dict)
    _same: dict[tuple[object, ...], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def tensor(self, name: str, dims: tuple[int, ...], dtype: str) -> View:
        return self.plain(Builder.tensor(self, name, dims, dtype).name)

    def view(self, name: str, dims: tuple[int, ...], axes: Sequence[int | None]) -> View:
        """A tensor as the program sees it."""
        return View(name, dims, self.tensors[name].dtype, axes=tuple(axes))

    def plain(self, name: str) -> View:
        """A tensor as it is."""
        dims = self.tensors[name].dims
        return self.view(name, dims, range(len(dims)))

    def constant(self, values: object, dtype: str) -> View:
        """A tensor with these numbers; equal ones are one."""
        array = np.asarray(values).astype(numpy_type(dtype))
        key = ("constant", dtype, array.shape, array.tobytes())
        if key not in self._same:
            made = self.tensor(self._numbered("constant"), array.shape, dtype)
            self.numbers[made.name] = array
            self._same[key] = made.name
        return self.plain(self._same[key])

    def scalar(self, name: str) -> float | None:
        """The number that a constant has throughout; None if it has several or is none."""
        array = self.numbers.get(name)
        if array is None or array.size == 0 or array.dtype.kind not in "fiub":
            return None
        first = array.flat[0]
        if array.size > 1 and not (array == first).all():
            return None
        return float(first)

    def step(
        self,
        kind: str,
        inputs: Sequence[str],
        dims: tuple[int, ...],
        dtype: str,
        scope: str = "",
        **attributes: Attribute,
    ) -> str:
        """A step with one result, or what has the same numbers already."""

        def fits(name: str) -> bool:
            return (self.tensors[name].dims, self.tensors[name].dtype) == (dims, dtype)

        known = simplified(kind, inputs, self.scalar, fits)
        if known is not None:
            return known
        size = int(np.prod(dims, dtype=np.float64))
        if size <= MAX_FOLDED and inputs and all(n in self.numbers for n in inputs):
            arrays = [self.numbers[n] for n in inputs]
            array = folded(kind, arrays, dims, dtype, attributes)
            if array is not None:
                return self.constant(array, dtype).name
        key = (kind, tuple(inputs), tuple(sorted(attributes.items())), dims, dtype)
        if key not in self._same:
            self._same[key] = self.steps_of(kind, inputs, [(dims, dtype)], scope, **attributes)[0]
        return self._same[key]

    def steps_of(
        self,
        kind: str,
        inputs: Sequence[str],
        results: Sequence[tuple[tuple[int, ...], str]],
        scope: str = "",
        **attributes: Attribute,
    ) -> list[str]:
        """A step with several results."""
        name = self._numbered(f"{scope}/{kind}" if scope else kind)
        ends = [""] if len(results) == 1 else [f".{i}" for i in range(len(results))]
        pairs = zip(ends, results, strict=True)
        outputs = [self.tensor(f"{name}{end}", *result).name for end, result in pairs]
        made = Step(name, kind, tuple(inputs), tuple(outputs), attributes, scope)
        self.steps.append(made)
        self.makers.update(dict.fromkeys(outputs, made))
        return outputs

    def mark(self) -> tuple[int, ...]:
        """A place to go back to."""
        return len(self.steps), len(self._same)

    def forget(self, mark: tuple[int, ...]) -> None:
        """Take the steps from a place on away, and find none of them again."""
        count, same = mark
        for step in self.steps[count:]:
            for name in step.outputs:
                del self.makers[name]
        del self.steps[count:]
        while len(self._same) > same:
            self._same.popitem()

    def _numbered(self, stem: str) -> str:
        count = self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{count}"
