"""A module as an ONNX model, with what ONNX cannot say of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from importers.errors import ModelError
from importers.stablehlo.draft import Draft, View
from importers.stablehlo.emission import SPELLED, emitted
from importers.stablehlo.program import Function, Module
from importers.stablehlo.recognition import recognised
from importers.stablehlo.roles import Signature, distinct
from importers.stablehlo.views import tensor_of
from importers.stablehlo.walk import Walk
from importers.traced.translation import Translated
from ir.graph import unused_name

PRODUCER = "StableHLO"


@dataclass(frozen=True, slots=True)
class Program:
    """What a file holds."""

    name: str
    module: Module
    main: Function
    signature: Signature
    where: str


def translated(program: Program) -> tuple[Translated, Counter[str]]:
    """The program as an ONNX model, and its operations by kind, named as the graph names what the
    table lacks.

    Raises:
        ModelError: an operation does not fit its kind, or the program has no end.
    """
    walk = Walk(program.module, program.where)
    operands = _operands(walk.draft, program)
    results = walk.function(program.main, operands, "")
    _deliver(walk.draft, program, results)
    names = _final_names(walk.draft, program, results)
    recognised(walk.draft, [n for n, _ in names])
    given = {g.name: g for g in program.signature.arguments}
    inputs = [n for n, g in given.items() if g.role != "parameter"]
    work = emitted(walk.draft, inputs, [n for n in given if n not in inputs], program.name)
    work.writer.rename({old: new for old, new in names if old != new})
    for old, new in names:
        tensor = replace(walk.draft.tensors[old], name=new)
        work.writer.describe(work.writer.graph.output.add(), tensor)
    found = Translated(
        model=work.writer.model(PRODUCER),
        trained=frozenset(n for n, g in given.items() if g.role == "parameter"),
        becomes={
            name: tuple(dict.fromkeys(s for kind in kinds for s in SPELLED.get(kind, (kind,))))
            for name, kinds in walk.becomes.items()
        },
        notes=(*program.signature.notes, *walk.notes),
        gradients={p: names[i][1] for p, i in program.signature.gradients.items()},
        state=frozenset(n for n, g in given.items() if g.role == "buffer"),
    )
    return found, walk.kinds


def _operands(draft: Draft, program: Program) -> list[View]:
    found = []
    for given, argument in zip(program.signature.arguments, program.main.arguments, strict=True):
        found.append(draft.tensor(given.name, argument.type.dims, argument.type.dtype))
    return found


def _deliver(draft: Draft, program: Program, results: list[View]) -> None:
    """Let every result be made by a step of its own, with its dims."""
    taken: set[str] = set()
    for index, view in enumerate(results):
        name = tensor_of(draft, view, "")
        tensor = draft.tensors[name]
        if name not in draft.makers or name in taken:
            (name,) = draft.steps_of("Identity", [name], [(tensor.dims, tensor.dtype)])
        taken.add(name)
        results[index] = draft.plain(name)
    if not results:
        raise ModelError("the program returns nothing", program.where, "return what it computes")


def _final_names(draft: Draft, program: Program, results: list[View]) -> list[tuple[str, str]]:
    """Every result with the name that it gets: by its place in what the function returns."""
    gradient_of = {index: name for name, index in program.signature.gradients.items()}
    told = program.signature.results
    wanted: list[str] = []
    for index in range(len(results)):
        known = told[index] if index < len(told) else ""
        parameter = gradient_of.get(index)
        wanted.append(f"grad.{parameter}" if parameter else known or f"result.{index}")
    names = [unused_name(name, draft.tensors) for name in distinct(wanted)]
    return list(zip((view.name for view in results), names, strict=True))
