"""One rank of a measured run: `python -m executors.dtensor.measure FOLDER --rank R --size N`.

The folder holds `plan.json`, `options.json` and `fixed.npz`; the first rank of the slowest stage
writes `measured.json` into it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import platform
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from executors.device_algorithms.losses import sums_losses
from executors.dtensor.composites import run_whole_parts
from executors.dtensor.numbers import torch_array, torch_dtype
from executors.dtensor.parallel import applied, own_graph
from executors.dtensor.pipelined import Pipelined
from executors.dtensor.ranks import joined
from executors.dtensor.tasks import read_arrays
from executors.matching import one_stage, whole_match
from executors.measured import (
    ALONE_BYTES,
    POINT_TO_POINT,
    PROFILED,
    RATE,
    WARM_UP,
    Measured,
)
from executors.parent import process_arguments
from executors.placement import Array
from executors.reference import given_tensors
from executors.values import numbers
from ir.batch import batch_dims
from ir.graph import OpGraph
from ir.ops import LOSS
from ir.plan import Plan
from ir.plan_file import read_plan
from ir.plan_stages import first_rank, slowest_part

_OPTIMIZERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("AdamW", {"fused": True}), "adam": ("Adam", {"fused": True}),
    "adagrad": ("Adagrad", {}), "sgd": ("SGD", {"fused": True}),
    "momentum": ("SGD", {"momentum": 0.9, "fused": True}), "adafactor": ("Adafactor", {}),
}  # fmt: skip
"""Class and options; fused where torch can, as the plan prices an update: one pass over memory."""
_CLASSES = (
    ("products", ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear")),
    ("convolutions", ("aten::conv", "aten::_conv", "aten::mkldnn_conv", "aten::slow_conv")),
    ("attention", ("aten::_scaled_dot", "aten::_flash", "aten::_efficient")),
    ("optimizer", ("Optimizer.", "aten::_foreach", "aten::_fused")),
    ("messages", ("_c10d_functional", "c10d", "gloo:", "nccl:")),
)
"""Classes by how the profiler's names begin; what is left is streams."""


def main() -> None:
    """Run the plan of a folder."""
    chosen = process_arguments(__doc__)
    with joined(chosen.rank, chosen.size, chosen.folder / "meeting"):
        options = json.loads((chosen.folder / "options.json").read_text())
        plan = read_plan(chosen.folder / "plan.json", staged=True)
        fixed = read_arrays(chosen.folder / "fixed.npz")
        found = _Run(plan, options["steps"], options["seed"], fixed).measured()
        if chosen.rank == shown_rank(plan):
            (chosen.folder / "measured.json").write_text(json.dumps(asdict(found)))


def shown_rank(plan: Plan) -> int:
    """The rank whose causes stand beside the plan's: the first of its slowest part."""
    return 0 if plan.pipeline.is_single else first_rank(plan, slowest_part(plan))


@dataclass(slots=True)
class _Run:
    plan: Plan
    steps: int
    seed: int
    fixed: Mapping[str, Array]
    """Numbers of constants and buffers that the model fixes."""
    own: Plan = field(init=False)
    values: dict[str, Any] = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = one_stage(self.plan) if self.plan.pipeline.is_single else self.plan
        self.values = self._drawn(given_tensors(self.own), self.seed)

    def _drawn(self, names: Sequence[str], seed: int) -> dict[str, Any]:
        table = self.own.graph.tensors
        drawn = numbers(self.own.graph, names, self.fixed, seed)
        return {n: torch_array(a).to(torch_dtype(table[n].dtype)) for n, a in drawn.items()}

    def measured(self) -> Measured:
        batches = list(self._micro_batches())
        alone = self._loss_alone(batches) if dist.get_rank() == shown_rank(self.plan) else None
        module = self._module()
        optimizer = self._optimizer(module)
        step = _step_of(module, optimizer, batches, self.plan.pipeline.micro_batches)
        self.values, batches = {}, []
        loss = step.loss()
        for _ in range(WARM_UP):
            step.run()
        gc.collect()
        before = _forget_peak() - _kept_bytes(module, optimizer)
        found = [self._timed(step) for _ in range(self.steps)]
        peak = _peak_bytes(before)
        idle_s = _idle_s(step)
        classes, messages = _profiled(step)
        return self._summed(loss, alone, found, idle_s, classes, messages, peak)

    def _micro_batches(self) -> Iterator[list[Any]]:
        """Operands of the micro-batches of a step; without stages that of all of them."""
        names, single = self.own.graph.inputs, self.plan.pipeline.is_single
        batched = {} if single else batch_dims(self.own.graph)
        count = 1 if single else self.plan.pipeline.micro_batches
        for number in range(count):
            new = [n for n in names if n in self.values and batched.get(n) == 0]
            drawn = self._drawn(new, self.seed + number) if number else {}
            yield [drawn.get(n, self.values.get(n)) for n in names]

    def _summed(
        self, loss: float, alone: float | None, found: list[list[float]], idle_s: float,
        classes: Mapping[str, float], messages: Mapping[str, tuple[int, float]], peak: float,
    ) -> Measured:  # fmt: skip
        slowest = largest([each[0] for each in found])
        passes, updates = (sorted(each[i] for each in found)[len(found) // 2] for i in (1, 2))
        idle_s = min(idle_s, passes)
        waiting_s = min(classes.get("messages", 0.0), passes - idle_s)
        return Measured(
            steps_s=tuple(slowest), computation_s=passes - idle_s - waiting_s, update_s=updates,
            waiting_s=waiting_s, idle_s=idle_s, classes_s=classes, messages=messages,
            memory_bytes=max(largest([peak])), loss=loss, loss_alone=alone,
            processes=dist.get_world_size(), machine=machine_facts(), notes=tuple(self.notes),
        )  # fmt: skip

    def _module(self) -> Any:
        found = own_graph(self.own, self.values)
        return applied(found, whole_match(self.plan), whole_outputs=False, losses=True)

    def _optimizer(self, module: Any) -> Any:
        name = str(self.plan.request.get("optimizer", "adamw"))
        trained = [p for p in module.parameters() if p.requires_grad]
        if name == "none" or not self.plan.request.get("training", True) or not trained:
            return None
        if name not in _OPTIMIZERS:
            self.notes.append(f"torch has no optimizer {name}; AdamW updates instead")
        kind, options = _OPTIMIZERS.get(name, _OPTIMIZERS["adamw"])
        return getattr(torch.optim, kind)(trained, lr=RATE, **options)

    def _timed(self, step: _Step) -> list[float]:
        dist.barrier()
        synchronise()
        return step.run()

    def _loss_alone(self, batches: Sequence[Sequence[Any]]) -> float | None:
        graph = self.own.graph
        held = sum(t.nbytes for t in graph.tensors.values())
        if held > ALONE_BYTES:
            self.notes.append("the loss was not checked: the model is too large for one device")
            return None
        given = (dict(zip(graph.inputs, batch, strict=True)) for batch in batches)
        losses = [loss_of(graph, self.values | batch) for batch in given]
        found = sum(losses) / (1 if sums_losses(graph) else len(losses))
        if math.isfinite(found):
            return found
        self.notes.append("the loss was not checked: of random numbers it is none")
        return None


def loss_of(graph: OpGraph, values: Mapping[str, Any]) -> float:
    """The sum of a graph's losses on one device; of results where it has none."""
    held = dict(values)
    total = 0.0
    with torch.no_grad():
        for op in graph.ops:
            if op.outputs:
                found = run_whole_parts(op, graph, dict(held), double=False)
                held |= dict(zip([n for n in op.outputs if n], found, strict=True))
                total += float(found[0]) if op.kind == LOSS else 0.0
    return total


@dataclass(slots=True)
class _Step:
    module: Any
    inputs: list[Any]
    optimizer: Any
    calls: int
    """Of the module in a step."""

    def loss(self) -> float:
        """The loss before anything is updated, of one call."""
        planned = self.module.planned
        if isinstance(planned, Pipelined):
            with torch.no_grad():
                return float(self.module(*self.inputs))
        found = self.module(*self.inputs)
        parts = found if isinstance(found, tuple) else (found,)
        terms = {n: t.detach() for n, t in zip(planned.results, parts, strict=True)}
        return sum(float(planned.step.completed(n, terms[n])) for n in planned.own_losses)

    def run(self) -> list[float]:
        """Seconds of the step, of its passes and of its update."""
        start = time.perf_counter()
        with torch.set_grad_enabled(self.optimizer is not None):
            for _ in range(self.calls):
                self._passes()
        synchronise()
        middle = time.perf_counter()
        if self.optimizer is not None:
            self.optimizer.step()
            self.optimizer.zero_grad()
        synchronise()
        end = time.perf_counter()
        return [end - start, middle - start, end - middle]

    def _passes(self) -> None:
        found = self.module(*self.inputs)
        parts = found if isinstance(found, tuple) else (found,)
        loss = torch.stack([p.float() for p in parts if not p.ndim] or [torch.zeros(())]).sum()
        if self.optimizer is not None:
            loss.backward()


def _step_of(module: Any, optimizer: Any, batches: Sequence[Sequence[Any]], count: int) -> _Step:
    """A step of so many micro-batches; a module with stages takes all of them in one call."""
    first = batches[0]
    whole = [
        first[i] if all(b[i] is first[i] for b in batches) else torch.cat([b[i] for b in batches])
        for i in range(len(first))
    ]
    calls = 1 if isinstance(module.planned, Pipelined) else count
    return _Step(module, [t.to(device_name()) for t in whole], optimizer, calls)


def _idle_s(step: _Step) -> float:
    """Seconds of a step's passes in which this rank waits for other stages."""
    planned = step.module.planned
    if not isinstance(planned, Pipelined):
        return 0.0
    clock, found = planned.clock, []
    clock.runs = True
    for _ in range(PROFILED):
        clock.busy_s = 0.0
        dist.barrier()
        _, passes_s, _ = step.run()
        found.append(passes_s - clock.busy_s)
    clock.runs = False
    return sum(found) / len(found)


def _profiled(step: _Step) -> tuple[dict[str, float], dict[str, tuple[int, float]]]:
    """Seconds by class of operator, and collectives with their seconds, of one step."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(PROFILED):
            dist.barrier()
            step.run()
    classes: Counter[str] = Counter()
    messages: dict[str, tuple[int, float]] = {}
    for event in profile.key_averages():
        own_us = max(event.self_cpu_time_total, getattr(event, "self_device_time_total", 0.0))
        library, _, kind = event.key.partition(":")
        if library in {"gloo", "nccl"} and not kind.startswith("barrier"):
            name = _message_of(kind.strip(":_"))
            total_us = max(event.cpu_time_total, getattr(event, "device_time_total", 0.0))
            count, total_s = messages.get(name, (0, 0.0))
            own_s = total_us * 1e-6 / PROFILED
            messages[name] = (count + event.count // PROFILED, total_s + own_s)
        elif "barrier" not in event.key:
            classes[_class_of(event.key)] += own_us * 1e-6 / PROFILED
    return dict(classes), messages


def _message_of(kind: str) -> str:
    """The plan's word for a message of a backend."""
    if kind.startswith(("send", "recv")):
        return POINT_TO_POINT
    return kind.replace("allgather", "all_gather").replace("allreduce", "all_reduce")


def _class_of(name: str) -> str:
    return next((c for c, begins in _CLASSES if name.startswith(begins)), "streams")


def largest(values: list[float]) -> list[float]:
    """The largest of all ranks, place by place."""
    table = torch.tensor(values, dtype=torch.float64, device=device_name())
    dist.all_reduce(table, dist.ReduceOp.MAX)
    return [float(x) for x in table]


def device_name() -> str:
    """`cuda` or `cpu`."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def synchronise() -> None:
    """Wait for what the device still computes."""
    if device_name() == "cuda":
        torch.cuda.synchronize()


def machine_facts() -> dict[str, str]:
    """Device and software of this process."""
    cuda = device_name() == "cuda"
    device = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    threads = str(torch.get_num_threads())
    return {
        "device": device, "torch": torch.__version__, "backend": str(dist.get_backend()),
        "threads": threads, "python": platform.python_version(), "system": platform.system(),
    }  # fmt: skip


def _resident_bytes(key: str) -> float:
    """A line of this process's status in kB; 0 where the system has none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(x.split()[1]) * 1024 for x in lines if x.startswith(key)), 0.0)


def _kept_bytes(module: Any, optimizer: Any) -> float:
    """What this rank keeps between steps: parameters and optimizer state."""
    states = optimizer.state.values() if optimizer is not None else ()
    tensors = [*module.parameters(), *(t for state in states for t in state.values())]
    locals_ = [getattr(t, "_local_tensor", t) for t in tensors if isinstance(t, torch.Tensor)]
    return float(sum(t.numel() * t.element_size() for t in locals_))


def _forget_peak() -> float:
    """Count the largest memory from here on; what is in use now."""
    if device_name() == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return 0.0
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _resident_bytes("VmRSS")


def _peak_bytes(before: float) -> float:
    if device_name() == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return max(0.0, _resident_bytes("VmHWM") - before)


if __name__ == "__main__":
    main()
