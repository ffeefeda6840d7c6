"""Train a perceptron as planned. torchrun starts this on every rank; it needs torch alone.

torchrun --nproc-per-node 8 train.py FOLDER [cpu]      where FOLDER holds torch_placements.py
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, INP001, PLC0415, T201

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

RATE = 1e-3


def load(path):
    """The exported module."""
    spec = importlib.util.spec_from_file_location("torch_placements", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def perceptron(model, x, plan):
    """The model: every parameter is used and every result left as the plan says."""
    import torch

    x = plan.constrain("x", x)
    hidden = plan.constrain("hidden", x @ plan.use("up", model.up))
    active = plan.constrain("active", torch.relu(hidden))
    return plan.constrain("y", active @ plan.use("down", model.down))


def train(plan, device):
    """Three steps; the loss is that of a single device."""
    import torch
    from torch.distributed.tensor import distribute_tensor

    mesh = plan.device_mesh(device)
    torch.manual_seed(0)
    model = torch.nn.Module()
    model.up = torch.nn.Parameter(torch.randn(512, 2048, device=device) / 32)
    model.down = torch.nn.Parameter(torch.randn(2048, 512, device=device) / 32)
    x = torch.randn(256, 512, device=device)
    alone = (torch.relu(x @ model.up) @ model.down).square().mean().item()

    plan.distribute(model, mesh)
    inputs = distribute_tensor(x, mesh, plan.placements(plan.INPUTS["x"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    lines = [f"{n} {tuple(p.shape)}: {p.placements}" for n, p in model.named_parameters()]
    for _ in range(3):
        loss = perceptron(model, inputs, plan).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        lines.append(f"loss {loss.full_tensor().item():.6f}")
    return [*lines, f"first loss on one device {alone:.6f}"]


def main():
    """Join the job, train, and let rank 0 report."""
    import torch

    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # noqa: TID251  set by torchrun
    torch.distributed.init_process_group()
    lines = train(load(Path(sys.argv[1], "torch_placements.py")), device)
    if torch.distributed.get_rank() == 0:
        print("\n".join(lines))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
