"""A ResNet-50 in ordinary code, trained as planned.

python resnet.py export resnet.pt2                      the model as a file that a search reads
torchrun --nproc-per-node 2 resnet.py train plan/plan.json
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN204, D101, INP001, PLC0415, T201

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional

BLOCKS, WIDTH, CLASSES, SIDE, BATCH = (3, 4, 6, 3), 16, 64, 64, 16


class Bottleneck(nn.Module):
    def __init__(self, wide, inner, stride):
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(wide, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.two = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norm2, self.norm3 = nn.BatchNorm2d(inner), nn.BatchNorm2d(4 * inner)
        self.three = nn.Conv2d(inner, 4 * inner, 1, bias=False)
        self.beside = nn.Identity()
        if stride > 1 or wide != 4 * inner:
            side = nn.Conv2d(wide, 4 * inner, 1, stride, bias=False)
            self.beside = nn.Sequential(side, nn.BatchNorm2d(4 * inner))

    def forward(self, x):
        y = functional.relu(self.norm1(self.one(x)))
        y = functional.relu(self.norm2(self.two(y)))
        return functional.relu(self.norm3(self.three(y)) + self.beside(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH)
        blocks, wide = [], WIDTH
        for stage, count in enumerate(BLOCKS):
            inner = WIDTH * 2**stage
            for number in range(count):
                blocks.append(Bottleneck(wide, inner, 2 if stage and not number else 1))
                wide = 4 * inner
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(wide, CLASSES)

    def forward(self, images, targets):
        x = functional.max_pool2d(functional.relu(self.norm(self.first(images))), 3, 2, 1)
        x = functional.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)
        return functional.cross_entropy(self.head(x), targets)


def batch(seed):
    """Random images and their classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
    return images, torch.randint(CLASSES, (BATCH,), generator=generator)


def export(path):
    """Write the model to a file."""
    torch.export.save(torch.export.export(ResNet(), batch(0)), path)


def train(plan):
    """Five steps, as a plan says."""
    from executors.torch import parallelize

    torch.manual_seed(0)
    model = parallelize(ResNet(), plan, batch(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for step in range(5):
        loss = model(*batch(0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if torch.distributed.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    if torch.distributed.get_rank() == 0:
        print(f"head.weight rests as {model.head.weight.placements}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    {"export": export, "train": train}[sys.argv[1]](sys.argv[2])
