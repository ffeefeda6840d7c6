"""A measured run of a plan by JAX: `python -m executors.xla.measure FOLDER`, one process with all
devices.

The folder holds `plan.json`, `options.json` and `fixed.npz`; `measured.json` is written into it.
"""

from __future__ import annotations

import gzip
import json
import math
import platform
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from executors.dtensor.tasks import read_arrays
from executors.jax_refusals import refuse
from executors.matching import one_stage
from executors.measured import ALONE_BYTES, PROFILED, RATE, WARM_UP, Measured
from executors.parent import process_arguments
from executors.placement import Array
from executors.reference import given_tensors
from executors.syncs import late_syncs
from executors.values import numbers
from executors.xla.devices import device_bytes, devices
from executors.xla.parallel import Ways, rest_of
from executors.xla.pins import Pins, mesh_of
from executors.xla.program import Program, known_numbers, losses
from ir.plan import Plan
from ir.plan_file import read_plan

_UPDATES = 5
"""Times that the update alone is measured."""
_CLASSES = (("products", ("dot", "gemm", "matmul")), ("convolutions", ("conv",)))
"""Classes by what XLA's names of kernels contain; what is left is streams."""
_MESSAGES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
Tree = dict[str, Any]


def main() -> None:
    """Run the plan of a folder."""
    folder: Path = process_arguments(__doc__).folder
    options = json.loads((folder / "options.json").read_text())
    plan = read_plan(folder / "plan.json", staged=True)
    run = _Run(plan, options["seed"], read_arrays(folder / "fixed.npz"), folder / "trace")
    found = run.measured(options["steps"])
    (folder / "measured.json").write_text(json.dumps(asdict(found)))


def _adamw(parameter: Any, gradient: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    times, first, second = state
    times = times + 1
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * gradient**2
    own = first / (1 - 0.9**times)
    scale = jnp.sqrt(second / (1 - 0.999**times)) + 1e-8
    return parameter * (1 - 0.01 * RATE) - RATE * own / scale, (times, first, second)


def _momentum(parameter: Any, gradient: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    (speed,) = state
    speed = 0.9 * speed + gradient
    return parameter - RATE * speed, (speed,)


def _sgd(parameter: Any, gradient: Any, _: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    return parameter - RATE * gradient, ()


_UPDATE: Mapping[str, Callable[..., tuple[Any, tuple[Any, ...]]]] = {
    "adamw": _adamw, "adam": _adamw, "momentum": _momentum, "sgd": _sgd,
}  # fmt: skip


@dataclass(slots=True)
class _Run:
    plan: Plan
    seed: int
    fixed: Mapping[str, Array]
    """Numbers of constants and buffers that the model fixes."""
    trace: Path
    """Folder that the profiler writes into."""
    notes: list[str] = field(default_factory=list)
    program: Program = field(init=False)
    values: dict[str, Array] = field(init=False)
    ways: dict[str, Ways] = field(init=False)
    """Of what no operator makes."""
    update: str = field(init=False)

    def __post_init__(self) -> None:
        refuse(self.plan)
        own, syncs = one_stage(self.plan), late_syncs(self.plan)
        self.values = numbers(own.graph, given_tensors(own), self.fixed, self.seed)
        known = known_numbers(own.graph, self.values, double=False)
        pins = Pins(mesh_of(own, devices(own.devices)))
        training = bool(own.request.get("training", True))
        self.program = Program(own, pins, training, known)
        self.ways = {n: rest_of(own, n, syncs.get(n))[1] for n in self.values}
        self.update = str(self.plan.request.get("optimizer", "adamw")) if training else "none"
        if self.update not in {*_UPDATE, "none"}:
            self.notes.append(f"there is no {self.update} for JAX here; AdamW updates instead")
            self.update = "adamw"

    @property
    def pins(self) -> Pins:
        assert self.program.pins is not None
        return self.program.pins

    def measured(self, steps: int) -> Measured:
        parameters, other = self.program.given(self.values)
        alone = self._loss_alone(parameters, other)
        held, given = self._placed(parameters), self._placed(other)
        states = self._states(held)
        loss = float(jax.jit(self._total)(held, given)) if held else float("nan")
        update_s = self._update_s(held, states)
        compiled = jax.jit(self._step, donate_argnums=(0, 1)).lower(held, states, given).compile()
        step = _Step(compiled, held, states, given)
        for _ in range(WARM_UP):
            step.run()
        found = tuple(step.run() for _ in range(steps))
        classes, messages = _profiled(step, self.trace, self.plan.devices)
        passes_s = max(0.0, statistics.median(found) - update_s)
        waiting_s = min(classes.get("messages", 0.0), passes_s)
        return Measured(
            steps_s=found, computation_s=passes_s - waiting_s, update_s=update_s,
            waiting_s=waiting_s, classes_s=classes, messages=messages,
            memory_bytes=device_bytes(compiled) or 0.0, loss=loss, loss_alone=alone,
            processes=self.plan.devices, machine=_machine_facts(), notes=tuple(self.notes),
        )  # fmt: skip

    def _placed(self, values: Tree) -> Tree:
        """Numbers on the devices, as they lie between steps."""
        rests = {n: self.pins.sharding(self.ways[n][0][0]) for n in values}
        return {n: jax.device_put(jnp.asarray(a), rests[n]) for n, a in values.items()}

    def _states(self, held: Tree) -> Tree:
        """The optimizer's state, which lies as the parameters do."""
        zeros = {n: jnp.zeros_like(p) for n, p in held.items()}
        if self.update in {"none", "sgd"}:
            return dict.fromkeys(held, ())
        if self.update == "momentum":
            return {n: (z,) for n, z in zeros.items()}
        return {n: (jnp.zeros(()), z, jnp.zeros_like(z)) for n, z in zeros.items()}

    def _total(self, held: Tree, given: Tree) -> Any:
        """The sum of the losses of a micro-batch."""
        used = {n: self.pins.along(a, *self.ways[n]) for n, a in {**held, **given}.items()}
        if not self.plan.recomputed:
            return losses(self.program, used)
        policy = jax.checkpoint_policies.save_only_these_names(*self.program.kept)
        return jax.checkpoint(lambda each: losses(self.program, each), policy=policy)(used)

    def _step(self, held: Tree, states: Tree, given: Tree) -> tuple[Any, Tree, Tree]:
        """The loss of a step, the parameters and the state behind it."""
        if self.update == "none":
            return self._total(held, given), held, states
        count = self.plan.pipeline.micro_batches
        loss, slopes = jax.value_and_grad(self._total)(held, given)
        if count > 1:

            def more(_: Any, total: Tree) -> Tree:
                found = jax.grad(self._total)(held, given)
                return jax.tree_util.tree_map(jnp.add, total, found)

            slopes = jax.lax.fori_loop(1, count, more, slopes)
        return loss, *self._updated(held, slopes, states)

    def _updated(self, held: Tree, slopes: Tree, states: Tree) -> tuple[Tree, Tree]:
        found = {n: _UPDATE[self.update](p, slopes[n], states[n]) for n, p in held.items()}
        return {n: pair[0] for n, pair in found.items()}, {n: pair[1] for n, pair in found.items()}

    def _update_s(self, held: Tree, states: Tree) -> float:
        """Seconds of the update alone."""
        if self.update == "none":
            return 0.0
        update = jax.jit(self._updated).lower(held, held, states).compile()
        times = []
        for _ in range(1 + _UPDATES):
            start = time.perf_counter()
            jax.block_until_ready(update(held, held, states))
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])

    def _loss_alone(self, parameters: Tree, other: Tree) -> float | None:
        graph = self.program.plan.graph
        if sum(t.nbytes for t in graph.tensors.values()) > ALONE_BYTES:
            self.notes.append("the loss was not checked: the model is too large for one device")
            return None
        alone = Program(self.program.plan, None, self.program.training, self.program.known)
        found = float(jax.jit(lambda given: losses(alone, given))({**parameters, **other}))
        if math.isfinite(found):
            return found
        self.notes.append("the loss was not checked: of random numbers it is none")
        return None


@dataclass(slots=True)
class _Step:
    compiled: Any
    held: Tree
    states: Tree
    given: Tree

    def run(self) -> float:
        """Seconds of a step."""
        start = time.perf_counter()
        loss, self.held, self.states = self.compiled(self.held, self.states, self.given)
        jax.block_until_ready((loss, self.held, self.states))
        return time.perf_counter() - start


def _profiled(
    step: _Step, folder: Path, count: int
) -> tuple[dict[str, float], dict[str, tuple[int, float]]]:
    """Seconds by class of kernel, and collectives with their seconds, of one step on one device."""
    with jax.profiler.trace(str(folder), create_perfetto_trace=True):
        for _ in range(PROFILED):
            step.run()
    (path,) = folder.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    classes: dict[str, float] = defaultdict(float)
    spent: dict[str, float] = defaultdict(float)
    seen: Counter[str] = Counter()
    for event in events:
        if event.get("ph") != "X" or "hlo_op" not in event.get("args", {}):
            continue
        name, own_s = str(event["name"]), float(event.get("dur", 0.0)) * 1e-6
        kind = next((k for k in _MESSAGES if name.startswith(k)), "")
        if kind:
            seen[_word(kind)] += 1
            spent[_word(kind)] += own_s
        classes["messages" if kind else _class_of(name)] += own_s
    share = 1.0 / (PROFILED * count)
    messages = {k: (round(n * share), spent[k] * share) for k, n in seen.items()}
    return {k: s * share for k, s in classes.items()}, messages


def _word(kind: str) -> str:
    """The plan's word for a message of XLA."""
    word = kind.replace("-", "_")
    return "point_to_point" if word == "collective_permute" else word


def _class_of(name: str) -> str:
    return next((c for c, parts in _CLASSES if any(p in name for p in parts)), "streams")


def _machine_facts() -> dict[str, str]:
    device = jax.devices()[0]
    processor = platform.processor() or platform.machine()
    return {
        "device": processor if device.platform == "cpu" else str(device.device_kind),
        "jax": jax.__version__, "backend": f"XLA, {device.platform}",
        "python": platform.python_version(), "system": platform.system(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
