"""JAX runs a plan: `parallelize` in a training script, and XLA as a judge of what it makes of a
plan's layouts, beside what the plan promises.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from executors.evaluation import Evaluator
from executors.judgement import Judgement, Traffic, predicted_traffic, summed, traffic_of
from executors.placement import Array
from executors.verdict import compared, only_one_has, run_whole
from executors.xla.devices import device_bytes, devices
from executors.xla.hlo import parse_module
from executors.xla.parallel import Parallel, parallelize
from executors.xla.pins import Pins, mesh_of
from executors.xla.program import Program, known_numbers
from executors.xla.reading import SMALL_BYTES, Reading, read
from ir.graph import OpGraph
from ir.plan import Plan
from ir.semantics.call import NotRunError

__all__ = ["TOLERANCES", "Parallel", "judge", "parallelize"]

TOLERANCES: Mapping[str, float] = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 1e-1}
"""Of the largest number of an output, by the element type in which the program computes. In double
precision rounding leaves 1e-12, as in the reference executor; in the others another order of
additions leaves some hundred units in the last place after normalisations of few numbers.
"""
_PASS = "spmd-partitioning"


def judge(
    plan: Plan, values: Mapping[str, Array], *, numbers: bool = True, double: bool | None = None
) -> Judgement:
    """Compile a plan with its layouts as constraints, and compare.

    Args:
        plan: the plan, for training without its backward pass in the graph, or for inference.
        values: numbers of everything that no operator makes.
        numbers: whether to run it and to compare with the whole model, in double precision.
        double: whether to compile it in double precision, bytes being counted as the plan's type
            has them; None where the plan's only floating type is float32.
    """
    double = _is_single(plan.graph) if double is None else double
    name = f"XLA (jax {jax.__version__}, {devices(plan.devices)[0].platform})"
    training = plan.derives_gradients
    try:
        with jax.enable_x64(double):
            found = _run(plan, values, training=training, double=double, numbers=numbers)
    except NotRunError as error:
        return Judgement(name, (), predicted_traffic(plan), (), {"the program": str(error)})
    expected: dict[str, Array] = {}
    not_run: dict[str, str] = {}
    if numbers:
        with np.errstate(all="ignore"):
            expected, not_run = run_whole(plan.graph, values, Evaluator(), training=training)
    tolerance = _tolerance(plan.graph, double=double)
    missing = dict.fromkeys(only_one_has(expected, found.outputs), "only one side has it")
    return Judgement(
        judge=name,
        outputs=compared(expected, found.outputs, tolerance),
        predicted=promised(plan, values),
        emitted=summed(found.reading.messages),
        not_run={**not_run, **missing},
        tolerance=tolerance,
        memory_bytes=found.memory_bytes,
        notes=found.reading.notes,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    reading: Reading
    outputs: Mapping[str, Array]
    memory_bytes: float | None


def _run(
    plan: Plan, values: Mapping[str, Array], *, training: bool, double: bool, numbers: bool
) -> _Found:
    """Compile the split program, read it, and run it if numbers are asked for."""
    known = known_numbers(plan.graph, values, double=double)
    pins = Pins(mesh_of(plan, devices(plan.devices)))
    program = Program(plan, pins, training, known, double)
    trained, other = program.given(values, shapes_only=not numbers)
    compiled, text = compiled_with_text(program, trained, other)
    reading = read(parse_module(text), plan.devices, item_bytes(plan.graph, double=double))
    outputs = compiled(trained, other) if numbers else {}
    return _Found(
        reading,
        {n: np.asarray(a, dtype=np.float64) for n, a in outputs.items()},
        None if double else device_bytes(compiled),
    )


def _is_single(graph: OpGraph) -> bool:
    return {t.dtype for t in graph.tensors.values() if t.is_float} <= {"float32"}


def compiled_with_text(
    program: Program, trained: Mapping[str, Any], other: Mapping[str, Any]
) -> tuple[Any, str]:
    """The compiled program, and the text of its module right after partitioning."""
    shardings = (program.shardings(trained), program.shardings(other))
    lowered = jax.jit(program.run, in_shardings=shardings).lower(trained, other)
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_pass_re": _PASS,
            "xla_dump_hlo_as_text": True,
            "xla_dump_large_constants": True,
            "xla_backend_optimization_level": 0,
        }
        compiled = lowered.compile(compiler_options=options)
        found = sorted(Path(folder).glob(f"*after_{_PASS}*.txt"))
        if not found:
            raise NotRunError(f"XLA wrote no module after {_PASS}")
        return compiled, found[-1].read_text()


def item_bytes(graph: OpGraph, *, double: bool) -> dict[str, float]:
    """Bytes of elements in the module whose type is not the plan's."""
    if double:
        return {"f64": 4.0}
    used = {t.dtype for t in graph.tensors.values()}
    pairs = (("int64", "s32"), ("uint64", "u32"))
    return {narrow: 8.0 for wide, narrow in pairs if wide in used}


def _tolerance(graph: OpGraph, *, double: bool) -> float:
    used = {"float64"} if double else {t.dtype for t in graph.tensors.values()}
    return max((t for name, t in TOLERANCES.items() if name in used), default=1e-1)


def promised(plan: Plan, values: Mapping[str, Array]) -> tuple[Traffic, ...]:
    """Planned messages without those of single numbers and of tensors whose numbers are given."""
    made = {n for op in plan.graph.ops for n in op.outputs}
    return traffic_of(
        [
            c
            for c in plan.collectives
            if c.nbytes > SMALL_BYTES
            and c.group_size > 1
            and not (c.tensor in made and c.tensor in values)
        ]
    )
