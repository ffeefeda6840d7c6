"""A jaxpr as a module of StableHLO: from here on both forms of JAX programs are one."""

from __future__ import annotations

from dataclasses import dataclass, field

from importers.stablehlo.jaxpr.body import Body, Call, Functions
from importers.stablehlo.jaxpr.control import CONTROL
from importers.stablehlo.jaxpr.parsing import parsed
from importers.stablehlo.jaxpr.primitives import TABLE
from importers.stablehlo.jaxpr.text import Equation, Jaxpr, Text
from importers.stablehlo.program import Argument, Dense, Function, Module, TensorType

_HEAD = 4096


def is_jaxpr(text: str) -> bool:
    """Whether a text begins as that of a jaxpr does, behind lines of comment."""
    rest = text[: text.find("\n") + 1 + _HEAD] if text.startswith("//") else text[:_HEAD]
    lines = [line for line in rest.split("\n") if line.strip() and not line.startswith(("//", "#"))]
    first = lines[0].strip() if lines else ""
    begins = first.startswith(("{ lambda", "{lambda", "let ")) or first in {"let", "{"}
    return begins and "lambda" in rest


def module_of(text: str, where: str) -> Module:
    """The module that the text of a jaxpr stands for.

    Raises:
        ModelError: it is no jaxpr.
    """
    work = _Work(parsed(text, where), where)
    return work.module()


@dataclass(slots=True)
class _Work:
    text: Text
    where: str
    functions: Functions = field(init=False)
    _made: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = Functions(self.text.named, self.where)

    def module(self) -> Module:
        self._define(self.text.main, "main")
        return Module("program", self.functions.found)

    def _define(self, jaxpr: Jaxpr, wanted: str) -> str:
        """The name of the function that a jaxpr becomes; one that is called twice is one."""
        if id(jaxpr) in self._made:
            return self._made[id(jaxpr)]
        found = self.functions.found
        name = wanted if wanted not in found else f"{wanted}.{len(found)}"
        self._made[id(jaxpr)] = name
        arguments = tuple(Argument(f"%{n}", kind) for n, kind in jaxpr.arguments)
        # Its place is taken before its body is read, which may define others.
        found[name] = Function(name, arguments, ("",) * len(jaxpr.results), ())
        body = Body(self.functions, {a.value: a.type for a in arguments})
        for constant, kind in jaxpr.constants:
            body.add("stablehlo.constant", [], {f"%{constant}": kind}, value=_held(kind))
        for equation in jaxpr.equations:
            self._equation(body, equation)
        results = [body.value(r) for r in jaxpr.results]
        body.add("return", results, {})
        found[name] = Function(name, arguments, ("",) * len(results), tuple(body.operations))
        return name

    def _equation(self, body: Body, equation: Equation) -> None:
        body.line = equation.line
        operands = tuple(body.value(o) for o in equation.operands)
        results: dict[str, TensorType] = {}
        for index, (name, kind) in enumerate(equation.results):
            unread = f"%_.{equation.line}.{index}.{len(body.operations)}"
            results[unread if name == "_" else f"%{name}"] = kind
        call = Call(body, equation, operands, results)
        name = equation.primitive
        if name in CONTROL:
            CONTROL[name](call, self._define)
        elif name in TABLE:
            TABLE[name](call)
        elif results:
            call.finish(f"jax.{name}", operands)


def _held(kind: TensorType) -> Dense:
    """Numbers that the traced function closes over, which its text does not tell."""
    return Dense("dense_resource<closed_over>", kind)
