"""The operator catalogue: one entry per kind, and the questions that planning asks of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, TypedDict, Unpack

from ir.graph import AttributeValue, Op, OpGraph, Tensor
from ir.ops.spelling import Form, Function, SmallSteps, Spelling
from ir.rule import ShardingRule, parse_rule


class Engine(StrEnum):
    """The part of a chip that does the work; each has its own achievable rate."""

    MATRIX = "matrix"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    VECTOR = "vector"
    VIEW = "view"
    """Moves no bytes: a change of name only."""


class Needs(StrEnum):
    """Which tensors the gradient of an operand is computed from."""

    NOTHING = "nothing"
    OTHERS = "others"
    """The other operands, as in a product."""
    ITSELF = "itself"
    RESULT = "result"
    OPERANDS = "operands"
    OPERANDS_AND_RESULT = "operands and result"
    FIRST = "first"
    """The first operand: a condition or an index."""


class Resizing(StrEnum):
    """What sizes of another copy of an operator keep to, where its rule does not say it."""

    JOINED = "the result has those of all operands, one after the other"
    APART = "the results together have that of the operand"
    BOUNDS = "a part, from a first to a last place"
    PADDED = "some elements more"
    MULTIPLIED = "a constant number of times as many"
    RESIZED = "the same, unless told in numbers of its own"
    KERNEL = "windows as large as a weight"
    TRANSPOSED = "positions spread out by a weight"
    WINDOWS = "windows of a size in the attributes"
    POSITIONS = "of the operand any number"
    SLOTS = "slots of experts, and the tokens that fill them"
    RANKED = "how many are chosen, and of how many, stays"
    HEADS = "numbers of heads in attributes follow the factors"
    ROWS = "indices must name rows that there are"
    ELEMENTS = "the same for every element of the index"
    COORDINATES = "the same for coordinates"


Int: TypeAlias = int
"""`int` where a method of that name hides it."""


@dataclass(frozen=True, slots=True)
class OpView:
    """An operator with its tensors at hand: what rules and counts are functions of."""

    op: Op
    graph: OpGraph

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return tuple(self.graph.tensors[n] if n else None for n in self.op.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.tensors[n] for n in self.op.outputs if n)

    def dims(self, index: int) -> tuple[int, ...]:
        """Dims of operand `index`."""
        return self.graph.tensors[self.op.inputs[index]].dims

    def result(self, index: int = 0) -> tuple[int, ...]:
        """Dims of result `index`."""
        return self.graph.tensors[self.op.outputs[index]].dims

    def has(self, index: int) -> bool:
        return index < len(self.op.inputs) and bool(self.op.inputs[index])

    def ints(self, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        value: AttributeValue = self.op.attributes.get(key, default)
        if isinstance(value, int):
            return (value,)
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise TypeError(
                f"attribute {key} of {self.op.name} is {value!r}, not a list of integers"
            )
        return tuple(v for v in value if isinstance(v, int))

    def int(self, key: str, default: Int = 0) -> Int:
        value = self.op.attributes.get(key, default)
        if not isinstance(value, int):
            raise TypeError(f"attribute {key} of {self.op.name} is {value!r}, not an integer")
        return value


RuleFunction = Callable[[OpView], ShardingRule]
CountFunction = Callable[[OpView], int]


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """What planning knows about one kind of operator."""

    kind: str
    rule: RuleFunction
    flops: CountFunction
    """Arithmetic of the whole operator, forward."""
    engine: Engine = Engine.VECTOR
    needs: Needs = Needs.NOTHING
    differentiable: tuple[int, ...] | None = None
    """Operands that can have a gradient; None means every operand of floating type."""
    backward_ratio: float = 1.0
    """Arithmetic of one operand's gradient over the arithmetic of the forward pass."""
    fusible: bool = False
    """Element-wise in character: may join a fused kernel."""
    broadcasts: bool = False
    """An operand may have size 1 where another one, or the result, is larger."""
    parameter_operands: tuple[int, ...] = ()
    """Operands that hold trainable weights by their meaning."""
    buffer_operands: tuple[int, ...] = ()
    """Operands that hold running statistics: no gradient, no optimizer state."""
    bias_operand: int = 0
    """The operand of ONNX's node that is a bias, which the normal form adds behind."""
    touched_bytes: CountFunction | None = None
    """Bytes moved by the whole operator, where that is not operands plus results."""
    draws: bool = False
    """It draws numbers of its own."""
    whole_at_any_size: bool = False
    """Factors that stay whole may have any size: what is computed does not hang on it."""
    resizing: Resizing | None = None
    """What sizes of a smaller copy keep to, beyond the rule."""
    family: str = ""
    """The file of `ir/ops` that enters it."""
    spelling: Spelling | None = None
    """What tracers call it, where its calls have one of a few forms."""
    small_steps: tuple[SmallSteps, ...] = ()
    """What JAX writes for it."""
    function: Function | None = None
    """What computes it, where a library has one function for it."""
    semantics: str = ""
    """What computes it otherwise: a function of `ir.semantics` or `executors.semantics`. The kernel
    that an executor has of its own bears the same name."""
    primitive: str = ""
    """MindSpore's primitive for it that takes a strategy; empty where it has none."""
    primitive_form: str = ""
    """The function of `ir.mindspore_forms.primitives` that says how it takes one, where that is not
    a number for each dimension of each operand."""
    sample: str = ""
    """A typical node as a model in ONNX's text, where operands of one size do not show it."""


class OperatorFacts(TypedDict, total=False):
    """Fields of `OperatorEntry` that have a default."""

    engine: Engine
    needs: Needs
    differentiable: tuple[int, ...] | None
    backward_ratio: float
    fusible: bool
    broadcasts: bool
    parameter_operands: tuple[int, ...]
    buffer_operands: tuple[int, ...]
    bias_operand: int
    touched_bytes: CountFunction | None
    draws: bool
    whole_at_any_size: bool
    resizing: Resizing


_CATALOGUE: dict[str, OperatorEntry] = {}


def no_flops(_: OpView) -> int:
    """Of what only moves elements."""
    return 0


def enter(
    *kinds: str, rule: RuleFunction, flops: CountFunction = no_flops, **facts: Unpack[OperatorFacts]
) -> None:
    """Enter kinds into the catalogue, in the family of the calling file."""
    family = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]  # noqa: SLF001
    _enter(kinds, OperatorEntry("", rule, flops, family=family, **facts))


def _enter(kinds: tuple[str, ...], entry: OperatorEntry) -> None:
    for kind in kinds:
        if kind in _CATALOGUE:
            raise ValueError(f"operator {kind} is in the catalogue twice")
        _CATALOGUE[kind] = replace(entry, kind=kind)


def operator(
    *kinds: str, rule: RuleFunction, **facts: Unpack[OperatorFacts]
) -> Callable[[CountFunction], CountFunction]:
    """As `enter`; the decorated function counts the FLOPs."""

    def entered(flops: CountFunction) -> CountFunction:
        family = flops.__module__.rpartition(".")[2]
        _enter(kinds, OperatorEntry("", rule, flops, family=family, **facts))
        return flops

    return entered


def spell(form: Form, **names: tuple[str, ...]) -> None:
    """Tell what tracers call kinds whose calls have a form.

    Args:
        form: of the calls.
        names: for each kind its names in PyTorch, in MindSpore and in StableHLO, see `Spelling`;
            the last ones may be left out.
    """
    for kind, each in names.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], spelling=Spelling(form, *each))


def take_apart(kind: str, *expressions: str, **attributes: str) -> None:
    """Tell the small steps that JAX writes for a kind, with the attributes that they stand for."""
    entry = _CATALOGUE[kind]
    found = SmallSteps(expressions, tuple(attributes.items()))
    _CATALOGUE[kind] = replace(entry, small_steps=(*entry.small_steps, found))


def compute(operands: int, **names: tuple[str, ...]) -> None:
    """Tell which function computes kinds: for each kind its names in numpy and in torch, the last
    of which may be left out.
    """
    for kind, each in names.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], function=Function(operands, *each))


def write(**names: str) -> None:
    """Tell which function of `ir.semantics` or `executors.semantics` computes kinds."""
    for kind, name in names.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], semantics=name)


def primitives(*same: str, **others: str) -> None:
    """Tell which primitives of MindSpore take a strategy for kinds.

    Source: MindSpore 2.7.0, `frontend/parallel/ops_info`: those that have an `...Info` class there.

    Args:
        same: kinds that MindSpore calls as ONNX does.
        others: its name for each of the others.
    """
    for kind, name in {**dict(zip(same, same, strict=True)), **others}.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], primitive=name)


def forms(**names: str) -> None:
    """Tell which function says how the primitives of kinds take a strategy."""
    for kind, name in names.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], primitive_form=name)


def show(**samples: str) -> None:
    """Give kinds a typical node, in ONNX's text; sizes differ, so that a rule shows which dimension
    is which.
    """
    for kind, each in samples.items():
        _CATALOGUE[kind] = replace(_CATALOGUE[kind], sample=each)


def per_result(count: int) -> CountFunction:
    """So many FLOPs for each element of the first result."""
    return lambda view: count * view.outputs[0].elements


def per_operand(count: int, index: int = 0) -> CountFunction:
    """So many FLOPs for each element of an operand."""
    return lambda view: count * view.graph.tensors[view.op.inputs[index]].elements


def catalogue() -> Mapping[str, OperatorEntry]:
    """All entries by kind."""
    return MappingProxyType(_CATALOGUE)


def kinds_of(family: str) -> frozenset[str]:
    """Kinds of one file of `ir/ops`."""
    return frozenset(kind for kind, entry in _CATALOGUE.items() if entry.family == family)


RULE_ATTRIBUTE = "sharding_rule"
"""Holds the rule, in its notation, that somebody gave an operator which the catalogue lacks."""


def annotation(op: Op) -> str:
    """The rule that was given to an operator of a kind that the catalogue lacks, else nothing."""
    text = op.attributes.get(RULE_ATTRIBUTE)
    return text if isinstance(text, str) and op.kind not in _CATALOGUE else ""


def unknown_rule(view: OpView) -> ShardingRule:
    """The rule of an operator that nobody described: every tensor whole on every device."""
    return ShardingRule(
        sizes=(),
        operands=tuple(None if t is None else ((),) * len(t.dims) for t in view.inputs),
        results=tuple(((),) * len(t.dims) for t in view.outputs),
    )


def _given_rule(view: OpView) -> ShardingRule:
    """The rule that an operator was given, or that of one that nobody described."""
    given = annotation(view.op)
    if not given:
        return unknown_rule(view)
    operands = [None if t is None else t.dims for t in view.inputs]
    return parse_rule(given, operands, [t.dims for t in view.outputs])


_UNKNOWN = OperatorEntry("", _given_rule, no_flops, needs=Needs.OPERANDS)


def lookup(kind: str) -> OperatorEntry:
    """Entry of a kind; one that the catalogue lacks is repeated on every device, unless annotated,
    and priced by the bytes that it moves.
    """
    return _CATALOGUE.get(kind, _UNKNOWN)


def is_known(kind: str) -> bool:
    """Whether the catalogue has an entry for this kind."""
    return kind in _CATALOGUE


def is_described(op: Op) -> bool:
    """Whether the rule of an operator is known: from the catalogue or from an annotation."""
    return is_known(op.kind) or bool(annotation(op))
