"""A program under translation: steps over tensors, constants known by their numbers.

Kinds are those of ONNX and a few that ONNX lacks (`Rsqrt`, `Erfc`), which emission writes out.
Equal steps are one, and what follows from small constants is computed at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from importers.stablehlo.folding import folded, simplified
from ir.graph import Tensor, unused_name

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = int | float | str | tuple[int, ...]
MAX_FOLDED = 1 << 16
"""Constants with more elements are left to steps."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operator."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Value] = field(default_factory=dict)
    scope: str = ""


@dataclass(slots=True)
class Draft:
    """Steps in order over a table of tensors."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    numbers: dict[str, Array] = field(default_factory=dict)
    """Constants whose numbers are known."""
    outside: set[str] = field(default_factory=set)
    """Constants whose numbers are too many to be read."""
    steps: list[Step] = field(default_factory=list)
    makers: dict[str, Step] = field(default_factory=dict)
    _same: dict[tuple[object, ...], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def tensor(self, name: str, dims: tuple[int, ...], dtype: str) -> str:
        """A new tensor under this name, or one like it that nobody has."""
        made = Tensor(unused_name(name, self.tensors), dims, dtype)
        self.tensors[made.name] = made
        return made.name

    def constant(self, array: Array, dtype: str) -> str:
        """A tensor with these numbers; equal ones are one."""
        key = ("constant", dtype, array.shape, array.tobytes())
        if key not in self._same:
            name = self.tensor(self._numbered("constant"), array.shape, dtype)
            self.numbers[name] = array
            self._same[key] = name
        return self._same[key]

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
        **attributes: Value,
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
                return self.constant(array, dtype)
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
        **attributes: Value,
    ) -> list[str]:
        """A step with several results."""
        name = self._numbered(f"{scope}/{kind}" if scope else kind)
        ends = [""] if len(results) == 1 else [f".{i}" for i in range(len(results))]
        outputs = [
            self.tensor(f"{name}{end}", *result) for end, result in zip(ends, results, strict=True)
        ]
        made = Step(name, kind, tuple(inputs), tuple(outputs), attributes, scope)
        self.steps.append(made)
        self.makers.update(dict.fromkeys(outputs, made))
        return outputs

    def mark(self) -> tuple[int, int]:
        """A place to go back to."""
        return len(self.steps), len(self._same)

    def forget(self, mark: tuple[int, int]) -> None:
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
