"""One operator on DTensors, forward and backward: by DTensor's own rules where these keep the
plan's split, by the function of one device's part where DTensor would gather or has no rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from executors.dtensor.composites import run_parts, run_whole_parts
from executors.dtensor.grid import Grid
from executors.dtensor.numbers import same_kind
from executors.dtensor.part import Part
from executors.dtensor.split import Split
from executors.dtensor.traffic import Log, Sent
from ir.graph import OpGraph
from ir.layout import Layout
from ir.semantics.call import NotRunError

_REFUSALS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What DTensor or torch raises where it cannot run an operator."""


@dataclass(slots=True)
class Ran:
    """One operator that ran forward."""

    split: Split
    leaves: list[Any]
    """Its operands, from which gradients are asked."""
    results: list[Any]
    """With their way back."""
    own: bool
    """Whether DTensor ran it by its own rules; else leaves and results are parts of one device."""
    operands: list[Any]


@dataclass(slots=True)
class Operators:
    """Runs operators and keeps what it had to do without DTensor's rules."""

    grid: Grid
    graph: OpGraph
    log: Log
    double: bool
    constants: Mapping[str, Any]
    """Tensors that parts of composites read and no operator hands over."""
    parted: dict[tuple[str, str], str] = field(default_factory=dict)
    """Operator and direction: why DTensor's rules did not do."""
    settled: bool = False
    """What is parted is known; DTensor's rules are not tried there again."""

    def forward(self, split: Split, operands: Sequence[Any], wanted: Sequence[int]) -> Ran:
        """Run an operator on operands in its layouts; gradients of some are wanted later.

        Raises:
            NotRunError: neither way does.
        """
        key = (split.op.name, "forward")
        if key not in self.parted:
            try:
                return self._own_forward(split, operands, wanted)
            except _REFUSALS as error:
                if self.settled:
                    raise NotRunError(_first_line(error)) from error
                self.parted[key] = _first_line(error)
        return self._part_forward(split, operands, wanted)

    def _own_forward(self, split: Split, operands: Sequence[Any], wanted: Sequence[int]) -> Ran:
        for operand in operands:
            layout = None if operand is None else self.grid.layout_of(operand)
            if layout is not None and not self.grid.in_order(layout):
                raise NotImplementedError("a dimension is split in another order than the mesh's")
        leaves = [
            o if o is None else o.detach().requires_grad_(i in wanted)
            for i, o in enumerate(operands)
        ]
        held = {n: same_kind(leaves[0], t) for n, t in self.constants.items()} if leaves else {}
        held |= dict(zip(split.op.inputs, leaves, strict=True))
        with self.log.aside() as sent, torch.set_grad_enabled(bool(wanted)):
            results = run_whole_parts(split.op, self.graph, held, double=self.double)
        self._check(results, split.results, sent, split.inside(backward=False))
        self.log.items += sent
        return Ran(split, leaves, results, own=True, operands=list(operands))

    def _part_forward(self, split: Split, operands: Sequence[Any], wanted: Sequence[int]) -> Ran:
        leaves = [
            None if o is None else local_of(o).detach().requires_grad_(i in wanted)
            for i, o in enumerate(operands)
        ]
        part = Part(split.op, self.graph, self.grid, split, leaves, self.double, self.constants)
        if split.reaches_over:
            raise NotRunError("its positions are split, and DTensor exchanges no edges")
        try:
            with torch.set_grad_enabled(bool(wanted)):
                results = run_parts(part)
        except _REFUSALS as error:
            raise NotRunError(_first_line(error)) from error
        for tensor, layout, found in zip(part.results, split.results, results, strict=True):
            dims = self.grid.local_dims(tensor.dims, layout)
            if tuple(found.shape) != dims:
                raise NotRunError(f"{tensor.name} is {list(found.shape)} here, not {list(dims)}")
        return Ran(split, leaves, results, own=False, operands=list(operands))

    def handed_out(self, ran: Ran) -> list[Any]:
        """Results of an operator, as DTensors without their way back."""
        if ran.own:
            return [r.detach() for r in ran.results]
        tensors = [self.graph.tensors[n] for n in ran.split.op.outputs if n]
        return [
            self.grid.wrapped(r.detach().contiguous(), t.dims, layout)
            for r, t, layout in zip(ran.results, tensors, ran.split.results, strict=True)
        ]

    def backward(self, ran: Ran, seeds: Sequence[Any], wanted: Sequence[int]) -> list[Any]:
        """Gradients of some operands from those of the results, in the layouts of the rule.

        Args:
            ran: the operator.
            seeds: gradient of every result; None where there is none.
            wanted: numbers of operands.

        Raises:
            NotRunError: neither way does.
        """
        key = (ran.split.op.name, "backward")
        if ran.own and key not in self.parted:
            try:
                return self._own_backward(ran, seeds, wanted)
            except _REFUSALS as error:
                if self.settled:
                    raise NotRunError(_first_line(error)) from error
                self.parted[key] = _first_line(error)
        if ran.own:
            with self.log.aside():  # the forward pass was sent once
                ran = self._part_forward(ran.split, ran.operands, wanted)
        return self._part_backward(ran, seeds, wanted)

    def _own_backward(self, ran: Ran, seeds: Sequence[Any], wanted: Sequence[int]) -> list[Any]:
        pairs = [(r, s) for r, s in zip(ran.results, seeds, strict=True) if s is not None]
        leaves = [ran.leaves[i] for i in wanted]
        with self.log.aside() as sent:
            found = _gradients(pairs, leaves)
        layouts = [ran.split.operand_gradients[i] for i in wanted]
        self._check(found, layouts, sent, ran.split.inside(backward=True))
        self.log.items += sent
        return found

    def _part_backward(self, ran: Ran, seeds: Sequence[Any], wanted: Sequence[int]) -> list[Any]:
        pairs = [(r, local_of(s)) for r, s in zip(ran.results, seeds, strict=True) if s is not None]
        leaves = [ran.leaves[i] for i in wanted]
        try:
            found = _gradients(pairs, leaves)
        except _REFUSALS as error:
            raise NotRunError(_first_line(error)) from error
        out = []
        for index, gradient in zip(wanted, found, strict=True):
            layout = ran.split.operand_gradients[index]
            if layout is None:
                raise NotRunError(f"operand {index} has a gradient and no layout")
            dims = self.graph.tensors[ran.split.op.inputs[index]].dims
            out.append(self.grid.wrapped(gradient.contiguous(), dims, layout))
        return out

    def _check(
        self,
        tensors: Sequence[Any],
        layouts: Sequence[Layout | None],
        sent: Sequence[Sent],
        promised: Counter[frozenset[int]],
    ) -> None:
        """Hold what DTensor made and sent against the rule."""
        for tensor, layout in zip(tensors, layouts, strict=True):
            if not isinstance(tensor, DTensor):
                raise NotImplementedError("DTensor does not take part")
            found = self.grid.layout_of(tensor)
            if found != layout:
                text = self.grid.text(found) if found else str(tensor.placements)
                raise NotImplementedError(
                    f"DTensor makes {text}, the rule {self.grid.text(layout)}"
                )
        if self.settled:
            return  # what it sends was seen when that was settled
        sizes = Counter(self.grid.size(axes) for axes in promised.elements())
        kinds = Counter((s.kind, len(s.ranks)) for s in sent)
        if kinds != Counter({("all_reduce", size): n for size, n in sizes.items()}):
            text = ", ".join(f"{n} x {kind} of {size}" for (kind, size), n in kinds.items())
            raise NotImplementedError(f"DTensor sends {text or 'nothing'} inside")


def _gradients(pairs: Sequence[tuple[Any, Any]], leaves: Sequence[Any]) -> list[Any]:
    """Reverse accumulation; a leaf that nothing depends on has a gradient of zeros."""
    pairs = [(r, s) for r, s in pairs if r.requires_grad]
    if not pairs:
        raise NotImplementedError("no result depends on an operand that has a gradient")
    results, seeds = zip(*pairs, strict=True)
    found = torch.autograd.grad(results, leaves, seeds, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]


def local_of(tensor: Any) -> Any:
    """The part of a DTensor that this device has."""
    return tensor._local_tensor  # noqa: SLF001


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    if text.startswith("aten._local_scalar_dense"):
        return "two split dimensions become one: DTensor reads numbers to price that, here are none"
    return text.splitlines()[0]
