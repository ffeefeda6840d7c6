"""Whether a split model computes what the whole one does, and sends what was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from executors.algorithms import ALGORITHMS
from executors.backward import gradient_name
from executors.evaluation import Evaluator
from executors.gradients import run_backward
from executors.placement import Array, Spread, spread, whole
from executors.reference import Mismatch
from executors.spmd import Around, Runner, run_operator
from executors.step import batch_graph, run_step
from ir.differentiation import operand_gradients, tensors_with_gradient
from ir.graph import OpGraph
from ir.layout import Layout
from ir.ops import LOSS
from ir.plan import Plan
from ir.semantics.call import NotRunError
from topology.mesh import Mesh, MeshAxis

NOTHING = 1e-3
"""Of the tolerance, and of the largest number of all outputs: what is smaller is rounding, as the
gradient of the bias of attention's keys, which is zero.
"""
_ONE = Mesh((MeshAxis("all", 1, 0),))


class NotComparableError(ValueError):
    """The whole model gives no numbers to compare with; the message says where."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output of both runs."""

    name: str
    dims: tuple[int, ...]
    error: float
    """Largest absolute difference over the largest number of the whole run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison of both runs says.

    Attributes:
        outputs: every output that both runs have.
        missing: outputs that one of them lacks.
        not_verified: operators that could not be run, with the reason.
        mismatches: messages that were sent otherwise than planned.
        messages: how many were sent.
        disagreement: largest difference between devices that should hold the same.
        tolerance: errors that are rounding.
    """

    outputs: tuple[Output, ...]
    missing: tuple[str, ...]
    not_verified: Mapping[str, str]
    mismatches: tuple[Mismatch, ...]
    messages: int
    disagreement: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return (
            bool(self.outputs)
            and not self.missing
            and not self.not_verified
            and not self.mismatches
            and self.disagreement <= self.tolerance
            and all(output.error <= self.tolerance for output in self.outputs)
        )


def verify(plan: Plan, values: Mapping[str, Array], runner: Evaluator | None = None) -> Verdict:
    """Run a plan and the graph without it on the same numbers, and compare.

    Args:
        plan: the plan; its graph must be small enough for arrays in memory.
        values: numbers of everything that no operator makes, of all samples of a step.
        runner: runs the operators forward; ONNX's reference if none is given.

    Raises:
        NotComparableError: the whole model gives NaN.
    """
    runner = runner or Evaluator()
    training = plan.derives_gradients
    with np.errstate(all="ignore"):  # what is no number shows in the outputs
        expected, failed = run_whole(batch_graph(plan), values, runner, training=training)
        found = run_step(plan, values, runner, training=training)
    _check_numbers(expected)
    return Verdict(
        outputs=compared(expected, found.outputs, runner.tolerance),
        missing=tuple(only_one_has(expected, found.outputs)),
        not_verified={**failed, **found.not_run},
        mismatches=tuple(found.mismatches),
        messages=len(found.sent),
        disagreement=found.disagreement,
        tolerance=runner.tolerance,
    )


def _check_numbers(outputs: Mapping[str, Array]) -> None:
    for name, array in outputs.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            count = int(np.isnan(array).sum())
            raise NotComparableError(
                f"the whole model gives NaN in {count} of {array.size} numbers of {name!r}: "
                "nothing can be compared with them\n"
                f"  at:  output {name!r}\n"
                "  fix: another --seed; if it is always so, the model divides by zero or overflows"
            )


def _largest(array: Array) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0)) if array.size else 0.0


def only_one_has(expected: Mapping[str, Array], found: Mapping[str, Array]) -> list[str]:
    """Outputs that one of two runs lacks."""
    names = dict.fromkeys([*expected, *found])
    return [n for n in names if n not in expected or n not in found]


def compared(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    tolerance: float,
    apart: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Output, ...]:
    """Every output that both runs have, with its error over its largest number.

    Args:
        expected: outputs of the whole model.
        found: outputs of the split one.
        tolerance: errors that are rounding.
        apart: by output the largest difference between devices that should hold the same; it
            counts as an error.
    """
    least = NOTHING * tolerance * max((_largest(a) for a in expected.values()), default=0.0)
    return tuple(
        Output(n, found[n].shape, _error(found[n], a, least, apart.get(n, 0.0)))
        for n, a in expected.items()
        if n in found
    )


def _error(found: Array, expected: Array, least: float, apart: float) -> float:
    """NaN in either run is an infinite error: it would hide what is wrong."""
    if found.shape != expected.shape:
        return np.inf
    if found.dtype.kind not in "fc":
        return apart if np.array_equal(found, expected) else np.inf
    if np.isnan(found).any() or np.isnan(expected).any():
        return np.inf
    finite = np.isfinite(expected)
    if not ((found == expected) | (finite & np.isfinite(found))).all():
        return np.inf
    gap = float(np.abs(found[finite] - expected[finite]).max(initial=0.0))
    return max(gap, apart) / (max(_largest(expected), least) or 1.0)


def run_whole(
    graph: OpGraph, values: Mapping[str, Array], runner: Runner, *, training: bool = False
) -> tuple[dict[str, Array], dict[str, str]]:
    """Outputs of a graph on one device, and the operators that could not be run.

    What a loss computes counts as an output, as in a split run, and in training the gradient of
    every parameter; those of a traced training step are made by its own operators.
    """
    held = {n: spread(a, Layout(((),) * a.ndim), _ONE) for n, a in values.items()}
    outputs: dict[str, Array] = {}
    failed: dict[str, str] = {}
    read: dict[str, list[Spread | None]] = {}
    around = Around(_ONE, constants=values)
    wanted = frozenset(graph.gradients.values())
    for op in graph.ops:
        operands = [held.get(n) for n in op.inputs]
        if any(n and n not in held for n in op.inputs):
            failed[op.name] = "something that it reads was not run"
            continue
        if not op.outputs:
            outputs.update({n: whole(t) for n, t in zip(op.inputs, operands, strict=True) if t})
            continue
        try:
            found, _ = run_operator(op, graph, operands, (-1,), runner, ALGORITHMS, around)
        except NotRunError as error:
            failed[op.name] = str(error)
            continue
        made = zip((n for n in op.outputs if n), found, strict=True)
        held.update((n, t) for n, t in made if n not in values)
        read[op.name] = operands
        outputs.update((n, whole(held[n])) for n in op.outputs if n in wanted or op.kind == LOSS)
    if training:
        outputs.update(_gradients(graph, values, held, read, failed))
    return outputs, failed


def _gradients(
    graph: OpGraph,
    values: Mapping[str, Array],
    held: Mapping[str, Spread],
    read: Mapping[str, Sequence[Spread | None]],
    failed: dict[str, str],
) -> dict[str, Array]:
    """Gradients of the sum of all losses, by reverse accumulation."""
    known = tensors_with_gradient(graph)
    back: dict[str, Spread] = {}
    for op in reversed(graph.ops):
        wanted = [i for i, flag in enumerate(operand_gradients(op, known)) if flag]
        if not wanted or op.name not in read:
            continue
        seeds = [back.get(n) for n in op.outputs if n]
        if op.kind == LOSS:
            result = held[op.outputs[0]]
            seeds = [replace(result, shards=(np.ones_like(result.shards[0]),))]
        try:
            _, found, _ = run_backward(
                op,
                graph,
                read[op.name],
                (-1,),
                seeds,
                wanted,
                ALGORITHMS,
                Around(_ONE, constants=values),
            )
        except NotRunError as error:
            failed[op.name] = f"backward: {error}"
            continue
        for index, gradient in zip(wanted, found, strict=True):
            name = op.inputs[index]
            old = back.get(name)
            total = gradient.shards[0] if old is None else old.shards[0] + gradient.shards[0]
            back[name] = replace(gradient, shards=(total,))
    return {gradient_name(t.name): whole(back[t.name]) for t in graph.parameters if t.name in back}
