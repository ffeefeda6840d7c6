"""Modules of ordinary code that are trained as planned, on every rank of a job.

`python -m torch.distributed.run --nproc-per-node N tests/judges/training_nets.py FOLDER` trains
what the folder's `cases.json` lists and writes what rank 0 saw to `found.json`.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from executors.dtensor.pipelined import Pipelined

STEPS = 5


class Block(nn.Module):
    """A decoder layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.last = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Attention and a perceptron, each beside the residual."""
        batch, rows, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (y.view(batch, rows, self.heads, -1).transpose(1, 2) for y in parts)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, rows, width))
        return x + self.down(functional.gelu(self.up(self.last(x)), approximate="tanh"))


class GPT(nn.Module):
    """A small GPT whose table of tokens is also its table of scores."""

    def __init__(self, *, with_loss: bool) -> None:
        super().__init__()
        width = 32
        self.tokens, self.places = nn.Embedding(64, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 64, bias=False)
        self.head.weight = self.tokens.weight
        self.with_loss = with_loss

    def forward(self, ids: Any, targets: Any = None) -> Any:
        """Scores, or the loss."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x))
        if not self.with_loss:
            return x
        return functional.cross_entropy(x.flatten(0, 1), targets.flatten())


class Llama(nn.Module):
    """A layer with rotary positions, half as many heads of keys, and a gated perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm, self.last = nn.Embedding(64, 32), nn.RMSNorm(32), nn.RMSNorm(32)
        self.q, self.k = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False)
        self.v, self.out = nn.Linear(32, 16, bias=False), nn.Linear(32, 32, bias=False)
        self.gate, self.up = nn.Linear(32, 96, bias=False), nn.Linear(32, 96, bias=False)
        self.down, self.head = nn.Linear(96, 32, bias=False), nn.Linear(32, 64, bias=False)
        angles = torch.outer(torch.arange(16.0), 10000.0 ** (-torch.arange(4) / 4.0))
        self.register_buffer("cosine", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sine", torch.cat([angles.sin()] * 2, -1))

    def _turned(self, x: Any) -> Any:
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * self.cosine + half * self.sine

    def forward(self, ids: Any, targets: Any) -> Any:
        """The loss."""
        x = self.tokens(ids)
        y, (batch, rows, _) = self.norm(x), x.shape
        q, k, v = (f(y).view(batch, rows, -1, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = self._turned(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        found = functional.scaled_dot_product_attention(self._turned(q), k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, rows, 32))
        y = self.last(x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


class Images(nn.Module):
    """Two convolutions with batch normalisation, a residual, pooling and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 16)

    def forward(self, x: Any) -> Any:
        """Scores."""
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.last(self.second(x)))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Perceptron(nn.Module):
    """Two products of a vector for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 16)

    def forward(self, x: Any) -> Any:
        """Scores."""
        return self.down(torch.relu(self.up(x)))


class Vision(nn.Module):
    """Patches of a picture, two encoder layers, and the mean of their tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 4, 32))
        self.blocks = nn.ModuleList(Block(32, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        """Scores."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Experts(nn.Module):
    """Four experts, each of which sees every row; a router weighs what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.norm = nn.Linear(32, 4, bias=False), nn.LayerNorm(32)
        self.up = nn.Parameter(torch.randn(4, 32, 64) / 6)
        self.down = nn.Parameter(torch.randn(4, 64, 32) / 8)
        self.head = nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        """Scores."""
        y = self.norm(x)
        share = torch.softmax(self.router(y), -1)
        hidden = functional.silu(torch.matmul(y[None], self.up))
        found = torch.matmul(hidden, self.down)
        return self.head(x + (found * share.transpose(0, 1)[..., None]).sum(0))


class UNet(nn.Module):
    """A picture that becomes small and wide and large again, beside what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.down, self.middle = nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 16, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        """Scores of every pixel, the classes last."""
        beside = functional.silu(self.norm(self.first(x)))
        y = functional.silu(self.middle(functional.silu(self.down(beside))))
        y = self.last(torch.cat([self.up(y), beside], 1))
        return y.permute(0, 2, 3, 1)


def case_of(name: str) -> tuple[Any, tuple[Any, ...], Any]:
    """A module, its operands, and the targets of its scores."""
    torch.manual_seed(0)
    targets = torch.randint(64, (8, 16))
    if name == "perceptron":
        return Perceptron(), (torch.randn(8, 32),), torch.randint(16, (8,))
    if name == "images":
        return Images(), (torch.randn(8, 3, 8, 8),), torch.randint(16, (8,))
    if name == "vision":
        return Vision(), (torch.randn(8, 3, 8, 8),), torch.randint(16, (8,))
    if name == "experts":
        return Experts(), (torch.randn(8, 32),), torch.randint(16, (8,))
    if name == "u-net":
        return UNet(), (torch.randn(8, 3, 8, 8),), torch.randint(16, (8, 8, 8))
    ids = torch.randint(64, (8, 16))
    if name == "llama":
        return Llama(), (ids, targets), None
    if name == "gpt":
        return GPT(with_loss=False), (ids,), targets
    return GPT(with_loss=True), (ids, targets), None


def loss_of(scores: Any, goal: Any) -> Any:
    """The loss of scores whose classes are last."""
    return functional.cross_entropy(scores.flatten(0, -2), goal.flatten())


def _optimizer(name: str, model: Any) -> Any:
    if name == "momentum":
        return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def _trained(
    model: Any, operands: tuple[Any, ...], targets: Any, name: str, times: int = 1,
    share: float = 1.0,
) -> tuple[list[float], Any]:  # fmt: skip
    """Losses of some steps with an optimizer, and the gradients of the first; each step has so many
    micro-batches, each of which counts for a share.
    """
    optimizer = _optimizer(name, model)
    losses, first = [], {}
    for step in range(STEPS):
        total = 0.0
        for number in range(times):
            *own, goal = (_part(each, number, times) for each in (*operands, targets))
            if goal is not None and isinstance(getattr(model, "planned", None), Pipelined):
                found = model(*own, goal)
            else:
                found = model(*own) if goal is None else loss_of(model(*own), goal)
            found = found * share
            found.backward()
            total += found.item()
        if not step:
            first = {n: _whole(p.grad) for n, p in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses, first


def _whole(gradient: Any) -> Any:
    """A gradient from all ranks; copies of a DTensor forget in which order its axes split it."""
    found = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return found.clone()


def _part(tensor: Any, number: int, times: int) -> Any:
    """A micro-batch of a batch."""
    return None if tensor is None else tensor.chunk(times)[number].contiguous()


def _judged(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    from executors.torch import parallelize  # noqa: PLC0415  after the group is there

    model, operands, targets = case_of(case["net"])
    times = int(case.get("micro_batches", 1))
    stages = int(case.get("stages", 1))
    share = 1.0 / times if stages > 1 else 1.0
    name = case.get("optimizer", "adamw")
    alone, expected = _trained(copy.deepcopy(model), operands, targets, name, times, share)
    first = tuple(_part(each, 0, times) for each in operands)
    loss = loss_of if stages > 1 and targets is not None else None
    model = parallelize(model, folder / case["plan"], first, loss=loss)
    if case.get("compiled"):
        model.compile()
    if case.get("evaluated"):  # before it is trained, which must not notice
        with torch.no_grad():
            model(*operands)
    losses, gradients = _trained(model, operands, targets, name, 1 if stages > 1 else times)
    errors = {
        n: float((g - expected[n]).norm() / expected[n].norm())
        for n, g in gradients.items()
        if n not in model.planned.unordered()
    }
    sent = [[t.kind, t.group_size, t.nbytes, t.count] for t in model.planned.traffic()]
    stages_here = getattr(model.planned, "running", [model.planned])
    graphs = [graph for each in stages_here for graph in each.recording.graphs]
    messages = torch.ops._c10d_functional
    calls, gathers = (
        sum(node.target is kind.default for graph in graphs for node in graph.graph.nodes)
        for kind in (messages.all_reduce, messages.all_gather_into_tensor)
    )
    products = [sum(_is_product(n) for n in graph.graph.nodes) for graph in graphs]
    shards = [str(p.placements) for p in model.parameters()]
    found = {"alone": alone, "losses": losses, "errors": errors, "sent": sent, "shards": shards}
    again = [str(n.target) for n in graphs[-1].graph.nodes]
    ahead = [_starts_ahead(graph.graph) for graph in graphs]
    told = {"calls": calls, "gathers": gathers, "products": products, "backward": again}
    return {**found, **told, "ahead": ahead}


def _starts_ahead(graph: Any) -> bool:
    """Whether every gather is started before the one in front of it is waited for."""
    place = {node: number for number, node in enumerate(graph.nodes)}
    gather = torch.ops._c10d_functional.all_gather_into_tensor.default
    gathers = [node for node in graph.nodes if node.target is gather]
    waits = [min(place[user] for user in node.users) for node in gathers]
    return all(place[node] < wait for node, wait in zip(gathers[1:], waits, strict=False))


def _is_product(node: Any) -> bool:
    return node.target in {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}


def main() -> None:
    """Train every case of a folder."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cases = json.loads((folder / "cases.json").read_text())
    found = [_judged(folder, case) for case in cases]
    if dist.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
