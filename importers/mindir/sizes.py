"""Sizes of a network that was exported with open dimensions.

MindSpore writes -1 for a size that is open, wherever it stands, and says nothing of its `Symbol`.
An open dimension of an input is called after it, `x.0`; `--bind` gives it a size, and from the
inputs the sizes of all results follow. Where they cannot be followed the model is refused; a size
that is told wrongly does not pass the check of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from importers.errors import ModelError, UnboundError, check_bound, unknown_dimension
from importers.facts import OpenDim
from importers.mindir.flattening import Flat, Group, Primitive, Ref, Value
from importers.mindir.program import Stored, TensorType
from importers.onnx_checks import MAX_DIM
from importers.traced.call import Converter
from importers.traced.operations import FrontEnd, moves, products, table

OPEN = -1


def _written_by(*converters: Converter) -> frozenset[str]:
    """Primitives that become what these functions write."""
    entries = table(FrontEnd.MINDIR).items()
    return frozenset(target for target, entry in entries if entry.convert in converters)


_SAME_COUNT = _written_by(moves.reshape, moves.flattened, moves.squeeze, moves.unsqueeze)
_PRODUCTS = _written_by(products.product)
_TRANSPOSES = _written_by(moves.permute)
Dims = tuple[int, ...]


def open_dimensions(flat: Flat) -> Iterator[OpenDim]:
    """Dimensions of inputs that are open."""
    for value, kind in flat.inputs.items():
        label = label_of(value)
        for axis, size in enumerate(kind.dims):
            if size == OPEN:
                yield OpenDim(label, axis, f"{label}.{axis}")


def label_of(value: str) -> str:
    """The name of an input in the program."""
    return value.partition(":")[2] or value


def sized(flat: Flat, bind: Mapping[str, int]) -> Flat:
    """The network with sizes in place of what is open.

    Args:
        flat: as it is read.
        bind: sizes by the names of `open_dimensions`.

    Raises:
        ModelError: a name that there is not, no size for one, or a result whose size does not
            follow.
    """
    _check(flat, bind)
    if not any(True for _ in open_dimensions(flat)):
        return flat
    work = _Sizing(flat, bind)
    work.run()
    return replace(flat, inputs=work.inputs, steps=work.steps)


def _check(flat: Flat, bind: Mapping[str, int]) -> None:
    names = {dim.name: f"input {dim.tensor!r}" for dim in open_dimensions(flat)}
    for name, size in bind.items():
        if name not in names:
            raise unknown_dimension(name, list(names))
        check_bound(name, size, MAX_DIM)
    missing = [name for name in names if name not in bind]
    if missing:
        raise UnboundError(missing, "; ".join(dict.fromkeys(names[name] for name in missing)))


@dataclass(frozen=True, slots=True)
class _Operand:
    dims: Dims
    was_open: tuple[bool, ...]

    @property
    def open_sizes(self) -> Dims:
        return tuple(s for s, is_open in zip(self.dims, self.was_open, strict=True) if is_open)


@dataclass(slots=True)
class _Sizing:
    flat: Flat
    bind: Mapping[str, int]
    inputs: dict[str, TensorType] = field(default_factory=dict)
    steps: list[Primitive] = field(default_factory=list)
    known: dict[str, _Operand] = field(default_factory=dict)

    def run(self) -> None:
        for value, kind in self.flat.inputs.items():
            label = label_of(value)
            told = (
                self.bind[f"{label}.{axis}"] if size == OPEN else size
                for axis, size in enumerate(kind.dims)
            )
            self.inputs[value] = self._noted(value, kind, tuple(told))
        for value, parameter in self.flat.parameters.items():
            self._noted(value, parameter.type, parameter.type.dims)
        self.steps = [self._step(step) for step in self.flat.steps]

    def _noted(self, value: str, kind: TensorType, dims: Dims) -> TensorType:
        self.known[value] = _Operand(dims, tuple(size == OPEN for size in kind.dims))
        return replace(kind, dims=dims)

    def _step(self, step: Primitive) -> Primitive:
        operands = list(self._operands(step.inputs))
        results = []
        for value, kind in step.results:
            told = kind
            if kind is not None:
                dims = kind.dims if OPEN not in kind.dims else self._followed(step, kind, operands)
                told = self._noted(value, kind, dims)
            results.append((value, told))
        return replace(step, results=tuple(results))

    def _operands(self, values: Sequence[Value]) -> Iterator[_Operand]:
        for value in values:
            if isinstance(value, Ref) and value.name in self.known:
                yield self.known[value.name]
            elif isinstance(value, Group):
                yield from self._operands(value.items)
            elif isinstance(value, Stored):
                yield _Operand(value.type.dims, (False,) * len(value.type.dims))

    def _followed(self, step: Primitive, kind: TensorType, operands: Sequence[_Operand]) -> Dims:
        for found in _guesses(step, kind.dims, operands):
            fits = len(found) == len(kind.dims) and OPEN not in found
            if fits and all(
                told in {size, OPEN} for size, told in zip(found, kind.dims, strict=True)
            ):
                return found
        raise ModelError(
            f"the sizes of what {step.target} makes do not follow from those of its operands",
            step.name,
            "export the model with tensors of the sizes wanted as inputs",
        )


def _guesses(step: Primitive, dims: Dims, operands: Sequence[_Operand]) -> Iterator[Dims]:
    """What a result may be, the best guess first."""
    if not operands:
        return
    first = operands[0]
    if step.target in _SAME_COUNT:
        if dims.count(OPEN) == 1:
            count, rest = math.prod(first.dims), -math.prod(dims)
            yield _filled(dims, (count // rest if rest else 0,))
        yield _filled(dims, first.open_sizes)
        return
    if step.target in _PRODUCTS and len(operands) > 1:
        yield _product(step, first.dims, operands[1].dims)
    if step.target in _TRANSPOSES:
        order = next((v for v in step.inputs if isinstance(v, tuple)), ())
        if len(order) == len(first.dims) and all(isinstance(axis, int) for axis in order):
            yield tuple(first.dims[axis] for axis in order if isinstance(axis, int))
        return
    yield _aligned(dims, operands)
    for operand in operands:
        yield _filled(dims, operand.open_sizes)
    sizes = {size for operand in operands for size in operand.open_sizes}
    if len(sizes) == 1:
        yield _filled(dims, tuple(sizes) * dims.count(OPEN))


def _filled(dims: Dims, sizes: Dims) -> Dims:
    """Open sizes in their order; nothing if there are others than so many."""
    if len(sizes) != dims.count(OPEN):
        return ()
    left = iter(sizes)
    return tuple(next(left) if size == OPEN else size for size in dims)


def _aligned(dims: Dims, operands: Sequence[_Operand]) -> Dims:
    """Sizes of operands with as many dimensions: what was open there, else the largest."""
    alike = [operand for operand in operands if len(operand.dims) == len(dims)]
    if not alike:
        return ()
    out = []
    for axis, size in enumerate(dims):
        opened = [each.dims[axis] for each in alike if each.was_open[axis]]
        others = [each.dims[axis] for each in alike]
        out.append(max(opened or others) if size == OPEN else size)
    return tuple(out)


def _product(step: Primitive, left: Dims, right: Dims) -> Dims:
    flags = [v for v in step.inputs if isinstance(v, bool)]
    turned = [
        bool(step.attributes.get(name, flags[place] if place < len(flags) else False))
        for place, name in enumerate(("transpose_a", "transpose_b"))
    ]
    if min(len(left), len(right)) < len(turned):
        return ()
    longest = max(left[:-2], right[:-2], key=len)
    return (*longest, left[-1 if turned[0] else -2], right[-2 if turned[1] else -1])
