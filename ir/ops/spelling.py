"""What tracers call operators of the catalogue whose calls have one of a few forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product


class Form(StrEnum):
    """How a call gives an operator its operands and attributes, and its result a type.

    Operands are named as PyTorch names them: `self`, `other`, `dim`, `weight`.
    """

    ONE = "one operand"
    """In the type of the result, as all but tests, comparisons and logic. What else a signature has
    are numbers, which become attributes: `celu(self, alpha=1.0)`.
    """
    TWO = "two operands"
    SCALED = "two operands, the second one times `alpha`"
    TEST = "a test of one operand"
    COMPARISON = "a comparison of two operands"
    """In the type that both fit in."""
    NOT = "logic of one flag"
    LOGIC = "logic of two flags"
    BITS = "logic of the bits of one operand"
    """Flags have an operator of their own, without `Bitwise` in front."""
    BITWISE = "logic of the bits of two operands"
    REDUCTION = "a reduction over `dim`, which stays where `keepdim` says so"
    ALONG = "over one dimension, which stays"
    SCAN = "each result of all elements so far, along one dimension"
    BY_CHANNEL = "a norm with a scale and a shift for each channel"
    """Attributes: `epsilon`, and `num_groups` where the call has it."""


@dataclass(frozen=True, slots=True)
class Function:
    """What computes an operator of its operands, by its name in a library; empty where there is no
    such function.
    """

    operands: int
    """One; or two, and with more operands it joins them one after the other."""
    numpy: str = ""
    """JAX has it under the same name."""
    torch: str = ""
    """With its module: `nn.functional.mish`."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """What each tracer calls an operator.

    Names stand with spaces between them. A name with arguments in parentheses has another signature
    than its form; semicolons stand behind such a line.
    """

    form: Form
    aten: str = ""
    """Of PyTorch, with overloads: `mul.{Tensor,Scalar}`."""
    mindir: str = ""
    """Primitives of MindSpore."""
    stablehlo: str = ""
    """With their dialect: `chlo.erf`."""


@dataclass(frozen=True, slots=True)
class SmallSteps:
    """An operator as JAX writes it: expressions of smaller ones, as `importers.stablehlo.patterns`
    reads them. `x`, `scale`, `bias`, `mean` and `variance` are its operands.
    """

    expressions: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    """What the operator has beside what the steps tell."""


def choices(text: str, **parts: tuple[str, ...]) -> Iterator[str]:
    """An expression with every choice of its parts.

    >>> list(choices("Add({a}, {b})", a=("x", "y"), b=("1",)))
    ['Add(x, 1)', 'Add(y, 1)']
    """
    for chosen in product(*parts.values()):
        yield text.format(**dict(zip(parts, chosen, strict=True)))
