"""A draft as an ONNX model: what the importer of ONNX makes a graph of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from importers.onnx_checks import type_code
from importers.stablehlo.draft import Draft
from importers.traced.making import Making
from importers.traced.writer import Step, Writer
from ir.graph import Tensor
from ir.ops.indexing import BY_COORDINATES
from ir.ops.reduction import REDUCTIONS
from ir.ops.shape import RESHAPES
from ir.semantics import named


@dataclass(slots=True)
class Emission:
    """Steps become nodes."""

    draft: Draft
    writer: Writer = field(default_factory=Writer)

    def held(self, name: str) -> Tensor | None:
        """A tensor of the draft as one of the model."""
        if not name:
            return None
        if name in self.draft.numbers:
            return self.writer.constant(self.draft.numbers[name], self.draft.tensors[name].dtype)
        if name not in self.writer.tensors:
            self.writer.tensors[name] = self.draft.tensors[name]
        return self.writer.tensors[name]

    def making(self, step: Step) -> tuple[Tensor, Making]:
        """The first operand of a step, and what writes the operator that makes its result."""
        source = self.held(step.inputs[0])
        if source is None:
            raise ValueError(f"{step.name} has no operand")
        result = self.draft.tensors[step.outputs[0]]
        shape = partial(self.writer.constant, dtype="int64")
        return source, Making(result, partial(self.node, step), shape)

    def node(self, step: Step, kind: str, inputs: list[Tensor | None], **attributes: Any) -> None:
        outputs = [self.held(n) for n in step.outputs]
        self.writer.add(kind, inputs, outputs, name=step.name, scope=step.scope, **attributes)

    def between(self, step: Step, kind: str, inputs: list[Tensor | None]) -> Tensor:
        """A node on the way to a step's result, of the same dims."""
        result = self.draft.tensors[step.outputs[0]]
        made = self.writer.tensor(f"{step.name}/{kind}", result.dims, result.dtype)
        self.writer.add(kind, inputs, [made], name=made.name, scope=step.scope)
        return made


def _reshape(work: Emission, step: Step) -> None:
    """With only ones more or less, what exporters write for that."""
    source, made = work.making(step)
    more = _ones(source.dims, made.result.dims)
    less = _ones(made.result.dims, source.dims)
    if more:
        made.unsqueeze(source, *more)
    elif less:
        made.squeeze(source, *less)
    else:
        made.reshape(source, *made.result.dims)


def _ones(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    """Places of ones that turn dims into others; none where that is not all."""
    found: list[int] = []
    rest = list(before)
    for place, dim in enumerate(after):
        if rest and rest[0] == dim and (dim != 1 or len(rest) == len(after) - place):
            rest.pop(0)
        elif dim == 1:
            found.append(place)
        else:
            return []
    return [] if rest else found


def expand(work: Emission, step: Step) -> None:
    """The dims that are wanted are an operand."""
    source, made = work.making(step)
    made.expand(source, *made.result.dims)


def _rsqrt(work: Emission, step: Step) -> None:
    root = work.between(step, "Sqrt", [work.held(step.inputs[0])])
    work.node(step, "Reciprocal", [root])


def _erfc(work: Emission, step: Step) -> None:
    tensor = work.draft.tensors[step.outputs[0]]
    made = work.between(step, "Erf", [work.held(step.inputs[0])])
    work.node(step, "Sub", [work.writer.constant(1, tensor.dtype), made])


def _lists(*names: str) -> Callable[[Emission, Step], None]:
    """Lists of numbers that are operands in ONNX."""

    def write(work: Emission, step: Step) -> None:
        rest = {k: v for k, v in step.attributes.items() if k not in names}
        operands: list[Tensor | None] = [work.held(n) for n in step.inputs]
        operands += [work.writer.constant(step.attributes[n], "int64") for n in names]
        work.node(step, step.kind, operands, **rest)

    return write


def pad(work: Emission, step: Step) -> None:
    """What is padded is an operand."""
    value, fill = (work.held(n) for n in step.inputs)
    work.node(
        step, step.kind, [value, work.writer.constant(step.attributes["pads"], "int64"), fill]
    )


def _wide_places(work: Emission, step: Step) -> None:
    """Places as 64-bit numbers, which these operators ask for."""
    inputs = [work.held(n) for n in step.inputs]
    places = inputs[1]
    if places is not None and places.dtype != "int64":
        made = work.writer.tensor(f"{step.name}/places", places.dims, "int64")
        code = type_code("int64")
        work.writer.add("Cast", [places], [made], name=made.name, scope=step.scope, to=code)
        inputs[1] = made
    work.node(step, step.kind, inputs, **step.attributes)


part = _lists("starts", "ends", "axes", "steps")

_WRITTEN: Mapping[str, Callable[[Emission, Step], None]] = MappingProxyType(
    {
        "Rsqrt": _rsqrt, "Erfc": _erfc,
        **dict.fromkeys(RESHAPES, _reshape),
        **dict.fromkeys(BY_COORDINATES, _wide_places),
        **named(sys.modules[__name__]),
        **dict.fromkeys(REDUCTIONS, _lists("axes")),
    }
)  # fmt: skip


SPELLED = MappingProxyType({"Rsqrt": ("Sqrt", "Reciprocal"), "Erfc": ("Erf", "Sub")})
"""Kinds that ONNX lacks, and what they are written as."""


def emitted(draft: Draft, inputs: list[str], stored: list[str], producer: str) -> Emission:
    """The nodes of a draft, without its results.

    Args:
        draft: the steps.
        inputs: tensors that the caller gives.
        stored: arguments that are weights or state.
        producer: who wrote the program.
    """
    work = Emission(draft)
    work.writer.graph.name = producer
    work.writer.tensors.update(
        {n: draft.tensors[n] for n in draft.tensors if n not in draft.numbers}
    )
    for name in (*stored, *sorted(draft.outside)):
        work.writer.store(draft.tensors[name])
    for name in inputs:
        work.writer.describe(work.writer.graph.input.add(), draft.tensors[name])
    for step in draft.steps:
        if step.kind in _WRITTEN:
            _WRITTEN[step.kind](work, step)
        else:
            work.node(step, step.kind, [work.held(n) for n in step.inputs], **step.attributes)
    return work
