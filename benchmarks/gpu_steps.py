r"""Training steps of ordinary torch code on one GPU: how long they take and how much they hold.

GPT-2 XL, Llama-3-8B with 4 and 8 layers, ViT-L and ResNet-50, each at three batches, in bfloat16
and float32, computing nothing, the cheap operators or whole blocks again; some of them compiled.
In bfloat16 AdamW updates float32 copies of the parameters. Float32 means float32: no TF32, except
in rows that say so. Every row is written as soon as it is measured; the most telling come first.

    python -m benchmarks.gpu_steps OUT_DIR --budget 420
    python -m benchmarks.gpu_steps OUT_DIR --device cpu --small
    python -m benchmarks.gpu_steps OUT_DIR --traces          two traces of one step each
"""

from __future__ import annotations

import argparse
import gc
import gzip
import itertools
import json
import platform
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from benchmarks.gpu_nets import NETS, SMALL, Net, built

_WARM_UP, _STEPS, _LEAST_STEPS = 3, 10, 4
_LONG_S = 6.0
"""Steps of a configuration stop after so long."""
_COMPILE_S = 60.0
"""Nothing is compiled where less is left."""
_CHUNK = 2**26
"""Elements that are updated at once, so that float32 gradients stay small."""
_RATE = 1e-4
_KEPT = ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product")
"""Operators whose results selective recomputation keeps, by how their names begin."""


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration."""

    model: str
    batch: int
    dtype: str
    recompute: str = "none"
    compiled: bool = False
    tf32: bool = False


class Update:
    """AdamW in its fused kernel; parameters of 16 bits are rounded from float32 copies."""

    def __init__(self, net: Net) -> None:
        parameters: list[Any] = list(net.parameters())
        self.short = parameters[0].element_size() < 4
        self.groups = list(_chunks(parameters)) if self.short else [parameters]
        self.masters = [
            [torch.nn.Parameter(p.detach().float()) for p in group] if self.short else group
            for group in self.groups
        ]
        self.optimizers = [torch.optim.AdamW(m, lr=_RATE, fused=True) for m in self.masters]

    def step(self) -> None:
        """Update all parameters and forget their gradients."""
        for group, masters, optimizer in zip(
            self.groups, self.masters, self.optimizers, strict=True
        ):
            if self.short:
                for own, master in zip(group, masters, strict=True):
                    master.grad = own.grad.float()
            optimizer.step()
            optimizer.zero_grad()
            if self.short:
                torch._foreach_copy_([p.detach() for p in group], [m.detach() for m in masters])
                for own in group:
                    own.grad = None


def _chunks(parameters: list[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    for each in parameters:
        part.append(each)
        if sum(p.numel() for p in part) >= _CHUNK:
            yield part
            part = []
    if part:
        yield part


def _keep(_: Any, operator: Any, *__: Any, **___: Any) -> Any:
    name = operator.__name__.split(".")[0]
    return (
        CheckpointPolicy.MUST_SAVE if name.startswith(_KEPT) else CheckpointPolicy.PREFER_RECOMPUTE
    )


def _through(recompute: str) -> Any:
    """How a block is called."""
    if recompute == "full":
        return partial(checkpoint, use_reentrant=False)
    if recompute == "selective":
        contexts = partial(create_selective_checkpoint_contexts, _keep)
        return partial(checkpoint, use_reentrant=False, context_fn=contexts)
    return lambda block, *operands: block(*operands)


class Clock:
    """Moments on the device: events of a GPU, else the time."""

    def __init__(self, device: str) -> None:
        self.cuda = device == "cuda"

    def now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_s(self, first: Any, second: Any) -> float:
        """Seconds, once all has been waited for."""
        found = first.elapsed_time(second) * 1e-3 if self.cuda else second - first
        return float(found)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()


def _moments(net: Net, operands: Any, update: Update, clock: Clock) -> list[Any]:
    """Of a step: its start, after its forward pass, its backward pass and its update."""
    start = clock.now()
    loss = net(*operands)
    forward = clock.now()
    loss.backward()
    backward = clock.now()
    update.step()
    return [start, forward, backward, clock.now()]


def _measured(case: Case, net: Net, update: Update, device: str) -> dict[str, Any]:
    clock = Clock(device)
    net.through = _through(case.recompute)
    operands: Any = net.operands(case.batch, device, getattr(torch, case.dtype))
    begin = time.perf_counter()
    _moments(net, operands, update, clock)
    clock.wait()
    first_s, begin = time.perf_counter() - begin, time.perf_counter()
    for _ in range(_WARM_UP - 1):
        _moments(net, operands, update, clock)
    clock.wait()
    once_s = (time.perf_counter() - begin) / (_WARM_UP - 1)
    if clock.cuda:
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    _moments(net, operands, update, clock)
    host_s = time.perf_counter() - begin
    clock.wait()
    steps = max(_LEAST_STEPS, min(_STEPS, round(_LONG_S / max(once_s, 1e-6))))
    found = [_moments(net, operands, update, clock) for _ in range(steps)]
    clock.wait()
    times = sorted(clock.between_s(each[0], each[-1]) for each in found)
    parts = zip(("forward_s", "backward_s", "update_s"), range(3), strict=True)
    return {
        "step_s": statistics.median(times),
        "step_10_s": times[round(0.1 * (steps - 1))],
        "step_90_s": times[round(0.9 * (steps - 1))],
        **{k: statistics.median(clock.between_s(e[i], e[i + 1]) for e in found) for k, i in parts},
        "host_s": host_s,
        "first_s": first_s,
        "steps": steps,
        **_memory(clock),
    }


def _memory(clock: Clock) -> dict[str, float]:
    if not clock.cuda:
        return {}
    return {
        "peak_bytes": float(torch.cuda.max_memory_allocated()),
        "reserved_bytes": float(torch.cuda.max_memory_reserved()),
        "rest_bytes": float(torch.cuda.memory_allocated()),
    }


def cases(*, small: bool) -> Iterator[Case]:
    """All configurations; those of one model and type stand together."""
    table = SMALL if small else NETS
    ways = ("none", "full", "selective")
    rounds = [("bfloat16", 0), ("float32", 0), ("compiled", 0), ("bfloat16", 1), ("bfloat16", 2)]
    for what, place in [*rounds, ("float32", 1), ("float32", 2), ("tf32", 0), ("images", 0)]:
        for name, (_, _, batches) in table.items():
            plain = Case(name, batches[place], "bfloat16")
            if what in {"bfloat16", "float32"}:
                yield from (replace(plain, dtype=what, recompute=way) for way in ways)
            elif what == "compiled" and not name.startswith("resnet"):
                yield replace(plain, compiled=True)
                if name != "llama3-8b-8":
                    yield replace(plain, dtype="float32", compiled=True)
            elif what == "tf32" and name != "llama3-8b-8":
                yield replace(plain, dtype="float32", tf32=True)
            elif what == "images" and name.startswith("resnet"):
                yield from (replace(plain, dtype=d, compiled=True) for d in ("bfloat16", "float32"))


class Bench:
    """Measures configurations one by one; a network stays while the next ones need it."""

    def __init__(self, device: str, *, small: bool, end_s: float) -> None:
        self.device, self.small, self.end_s = device, small, end_s
        self.key: Any = None
        self.net: Any = None
        self.update: Any = None

    def row(self, case: Case) -> dict[str, Any]:
        """What was measured, or why nothing was."""
        if case.compiled and self.end_s - time.monotonic() < _COMPILE_S and not self.small:
            return {**asdict(case), "status": "no time left to compile"}
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.tf32
        begin = time.perf_counter()
        try:
            self._prepare(case)
            found = {"status": "ok", **_measured(case, self.net, self.update, self.device)}
        except torch.OutOfMemoryError:
            found = {"status": "out of memory"}
        except Exception as error:  # noqa: BLE001  the next configuration may run
            found = {"status": f"{type(error).__name__}: {error}"[:500]}
        if found["status"] != "ok":
            self._forget()
        return {**asdict(case), **found, "wall_s": time.perf_counter() - begin}

    def _prepare(self, case: Case) -> None:
        key = case.model, case.dtype, case.compiled
        if key != self.key:
            self._forget()
            self.net = built(case.model, self.device, getattr(torch, case.dtype), small=self.small)
            self.update, self.key = Update(self.net), key
            if case.compiled and case.model.startswith("resnet"):
                self.net.compile()
            elif case.compiled:
                for block in self.net.blocks:
                    block.compile()
        self.net.zero_grad()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _forget(self) -> None:
        self.key = self.net = self.update = None
        gc.collect()
        torch.compiler.reset()
        if self.device == "cuda":
            torch.cuda.empty_cache()


def traces(folder: Path, device: str, *, small: bool) -> None:
    """One step of a short GPT-2 XL and of ResNet-50, as the profiler sees it."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    for name in ("gpt2-xl", "resnet-50"):
        table = SMALL if small else NETS
        batch, clock = table[name][2][0], Clock(device)
        net = built(name, device, torch.bfloat16, small=small)
        if name == "gpt2-xl":
            net.blocks = net.blocks[:4]
        update = Update(net)
        operands = net.operands(batch, device, torch.bfloat16)
        for _ in range(_WARM_UP):
            _moments(net, operands, update, clock)
        clock.wait()
        with torch.profiler.profile(activities=kinds, record_shapes=True) as profile:
            _moments(net, operands, update, clock)
            clock.wait()
        path = folder / f"{name}-{batch}-bfloat16.json"
        profile.export_chrome_trace(str(path))
        with path.open("rb") as source, gzip.open(f"{path}.gz", "wb") as target:
            shutil.copyfileobj(source, target)
        path.unlink()
        print(f"{path}.gz", flush=True)


def machine(device: str) -> dict[str, Any]:
    """What the steps run on."""
    facts: dict[str, Any] = {"torch": torch.__version__, "python": platform.python_version()}
    if device == "cuda":
        about = torch.cuda.get_device_properties(0)
        facts |= {
            "device": about.name,
            "memory_bytes": about.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return facts


def main() -> None:
    """Measure until all is measured or the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=420.0, help="seconds")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="small networks, to try the command")
    parser.add_argument("--skip", type=int, default=0, help="configurations to leave out at first")
    parser.add_argument("--traces", action="store_true", help="write traces instead")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.traces:
        traces(chosen.folder, chosen.device, small=chosen.small)
        return
    end_s = time.monotonic() + chosen.budget
    bench = Bench(chosen.device, small=chosen.small, end_s=end_s)
    text = json.dumps(machine(chosen.device), indent=1)
    (chosen.folder / "machine.json").write_text(text + "\n")
    slowest_s = 0.0
    with (chosen.folder / "steps.jsonl").open("a") as rows:
        for case in itertools.islice(cases(small=chosen.small), chosen.skip, None):
            if time.monotonic() + min(slowest_s, 20.0) > end_s:
                break
            row = bench.row(case)
            slowest_s = max(0.8 * slowest_s, row.get("wall_s", 0.0))
            rows.write(json.dumps(row) + "\n")
            rows.flush()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
