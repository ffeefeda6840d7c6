"""A step of `parallelize` against a step of hand-written FSDP2 or tensor-parallel code.

    python -m benchmarks.overhead FOLDER [--layout fsdp|tensor] [--rounds 9] [--layers 12] [--small]

GPT-2 small with a tied table, float32, AdamW, two gloo processes of one thread. Both modules live
in the same processes and alternate, so that other programs slow both: the figure is the median of
the ratios of neighbours. The losses of the first steps are held against those of one device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

_RATE = 1e-4
_CHECKED = 5
"""Steps whose losses one device computes too."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the model and its batch."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 50304
    tokens: int = 128
    batch: int = 4


SMALL = Sizes(2, 64, 4, 256, 32, 4)


class Block(nn.Module):  # type: ignore[misc, unused-ignore]
    """A decoder layer whose heads may be fewer than the model's."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        wide, self.size = sizes.width, sizes.width // sizes.heads
        self.first, self.second = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.q, self.k, self.v = (nn.Linear(wide, wide) for _ in range(3))
        self.out = nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x: Any) -> Any:
        """As wide as its operand."""
        y, (batch, rows, _) = self.first(x), x.shape
        q, k, v = (
            f(y).view(batch, rows, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, rows, -1))
        return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))


class GPT(nn.Module):  # type: ignore[misc, unused-ignore]
    """GPT-2 without dropout."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.tokens, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        nn.init.normal_(self.head.weight, std=0.02)
        self.tokens.weight = self.head.weight

    def forward(self, ids: Any, targets: Any) -> Any:
        """The loss."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def _net(sizes: Sizes) -> GPT:
    torch.manual_seed(0)
    return GPT(sizes)


def _batch(sizes: Sizes) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(sizes.vocabulary, (sizes.batch, sizes.tokens + 1), generator=draw)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


@dataclass(slots=True)
class Side:
    """A model under way: a step is a call."""

    forward: Callable[[], Any]
    """The loss, on its way back too."""
    optimizer: Any

    def step(self) -> tuple[float, float]:
        """Its loss and its seconds, those of the slowest process."""
        dist.barrier()
        start = time.perf_counter()
        loss = self.forward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        took = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return float(loss), float(took)


def by_fsdp(sizes: Sizes) -> Side:
    """Each block and what is around them a unit of FSDP2, each rank its half of the batch."""
    net, mesh = _net(sizes), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    own = [t.chunk(dist.get_world_size())[dist.get_rank()] for t in _batch(sizes)]

    def forward() -> Any:
        loss = net(*own)
        loss.backward()
        return loss.detach()

    return Side(forward, torch.optim.AdamW(net.parameters(), lr=_RATE))


def by_tensor_parallel(sizes: Sizes) -> Side:
    """Heads, hidden features and the vocabulary in parts, the loss on parts of the scores."""
    net, mesh = _net(sizes), init_device_mesh("cpu", (dist.get_world_size(),))
    column, row = ColwiseParallel, RowwiseParallel
    for block in net.blocks:
        plan: dict[str, Any] = {n: column() for n in ("q", "k", "v", "up")}
        parallelize_module(block, mesh, {**plan, "out": row(), "down": row()})
    ends = {
        "tokens": row(input_layouts=Replicate()),
        "head": column(output_layouts=Shard(-1), use_local_output=False),
    }
    parallelize_module(net, mesh, ends)
    net.tokens.weight = net.head.weight
    batch = _batch(sizes)

    def forward() -> Any:
        with loss_parallel():
            loss = net(*batch)
            loss.backward()
        whole = loss.full_tensor() if isinstance(loss, DTensor) else loss
        return whole.detach()

    split = [p for p in net.parameters() if isinstance(p, DTensor)]
    whole = [p for p in net.parameters() if not isinstance(p, DTensor)]
    groups = [{"params": split}, {"params": whole}]
    return Side(forward, torch.optim.AdamW(groups, lr=_RATE))


def by_plan(sizes: Sizes, plan: Path) -> Side:
    """The same by `parallelize`."""
    from executors.torch import parallelize  # noqa: PLC0415  after the group is there

    batch = _batch(sizes)
    net = parallelize(_net(sizes), plan, batch, report=False)

    def forward() -> Any:
        loss = net(*batch)
        loss.backward()
        return loss.detach()

    return Side(forward, torch.optim.AdamW(net.parameters(), lr=_RATE))


def _alone(sizes: Sizes) -> list[float]:
    net, batch, losses = _net(sizes), _batch(sizes), []
    optimizer = torch.optim.AdamW(net.parameters(), lr=_RATE)
    for _ in range(_CHECKED):
        loss = net(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


HANDS: Mapping[str, Callable[[Sizes], Side]] = {"fsdp": by_fsdp, "tensor": by_tensor_parallel}
_ASKED: Mapping[str, dict[str, Any]] = {
    "fsdp": {"degrees": (("dp", 2),), "zero": "3"},
    "tensor": {"degrees": (("tp", 2),), "zero": "0"},
}


def _rank(folder: Path, layout: str, rounds: int, sizes: Sizes) -> None:
    """One process: both sides step by step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    alone = _alone(sizes) if dist.get_rank() == 0 else []
    dist.barrier()
    hand, plan = HANDS[layout](sizes), by_plan(sizes, folder / f"{layout}.json")
    pairs = []
    for number in range(max(_CHECKED, rounds + 1)):
        if number % 2:
            second, first = plan.step(), hand.step()
        else:
            first, second = hand.step(), plan.step()
        pairs.append((first, second))
    if dist.get_rank() == 0:
        record = {"alone": alone, "pairs": pairs}
        (folder / f"{layout}.found.json").write_text(json.dumps(record))
    dist.barrier()
    dist.destroy_process_group()


def _planned(folder: Path, layout: str, sizes: Sizes) -> None:
    """Write the plan of a layout."""
    from importers.model_file import import_model_file  # noqa: PLC0415
    from ir.plan_file import plan_to_json  # noqa: PLC0415
    from planner.request import SearchRequest  # noqa: PLC0415
    from planner.search import search  # noqa: PLC0415
    from topology.catalogue import named_cluster  # noqa: PLC0415

    path = folder / "model.pt2"
    torch.export.save(torch.export.export(_net(sizes), _batch(sizes)), path)
    asked = SearchRequest(
        target="torch", training=True, pipeline="off", recompute="none",
        global_batch=sizes.batch, micro_batch=str(sizes.batch), **_ASKED[layout],
    )  # fmt: skip
    plan = search(import_model_file(path), named_cluster("dgx-h100", 2), asked)
    (folder / f"{layout}.json").write_text(plan_to_json(plan))


def _said(layout: str, found: Mapping[str, Any]) -> str:
    """Ratio and losses in words; the first pair records and warms up."""
    pairs = found["pairs"]
    ratios = sorted(plan[1] / hand[1] for hand, plan in pairs[1:])
    hand_s, plan_s = (statistics.median(pair[i][1] for pair in pairs[1:]) for i in (0, 1))
    errors = [
        abs(plan[0] / alone - 1.0) for (_, plan), alone in zip(pairs, found["alone"], strict=False)
    ]
    return (
        f"{layout}: by hand {hand_s:.3f} s, parallelize {plan_s:.3f} s; median of "
        f"{len(ratios)} paired ratios {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}); losses of {len(errors)} steps within "
        f"{max(errors):.1e} of one device"
    )


def main() -> None:
    """Both layouts, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layout", choices=HANDS, default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--layers", type=int, default=Sizes().layers)
    parser.add_argument("--small", action="store_true", help="to try the command")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = SMALL if options.small else Sizes(options.layers)
    if options.rank:
        _rank(options.folder, options.layout, options.rounds, sizes)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    for layout in [options.layout] if options.layout else list(HANDS):
        _planned(options.folder, layout, sizes)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", "2", "-m", "benchmarks.overhead", str(options.folder)]
        command += ["--rank", "--layout", layout, "--rounds", str(options.rounds)]
        command += ["--layers", str(options.layers), *(["--small"] * options.small)]
        subprocess.run(command, check=True)
        print(_said(layout, json.loads((options.folder / f"{layout}.found.json").read_text())))


if __name__ == "__main__":
    main()
