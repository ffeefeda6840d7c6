"""Six networks of ordinary torch code, small enough to be trained on processors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.gpu_nets import GPT, Llama, Net, ResNet, Shape, ViT


class Experts(Net):
    """Layers of experts, each of which sees every row; a router weighs what they say."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(_ExpertLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary)

    def forward(self, x: Any, targets: Any) -> Any:
        """The loss."""
        for block in self.blocks:
            x = self.through(block, x)
        return self.scored(self.head(self.norm(x)), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random rows and their classes."""
        rows = torch.randn(batch, self.shape.tokens, self.shape.width, device=device, dtype=dtype)
        return rows, torch.randint(self.shape.vocabulary, rows.shape[:2], device=device)


class _ExpertLayer(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        count, wide, inner = shape.heads, shape.width, shape.inner
        self.norm, self.router = nn.LayerNorm(wide), nn.Linear(wide, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, wide, inner) * wide**-0.5)
        self.down = nn.Parameter(torch.randn(count, inner, wide) * inner**-0.5)

    def forward(self, x: Any) -> Any:
        """As wide as its operand."""
        y = self.norm(x).flatten(0, 1)
        share = torch.softmax(self.router(y), -1).transpose(0, 1)[..., None]
        found = torch.matmul(functional.silu(torch.matmul(y[None], self.up)), self.down)
        return x + (found * share).sum(0).view_as(x)


class UNet(Net):
    """Pictures that become small and wide and large again, beside what they were."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, wide = shape, shape.width
        self.first, self.norm = nn.Conv2d(3, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide)
        self.down = nn.Conv2d(wide, 2 * wide, 3, 2, 1)
        self.middle = nn.Conv2d(2 * wide, 2 * wide, 3, 1, 1)
        self.up = nn.ConvTranspose2d(2 * wide, wide, 2, 2)
        self.last = nn.Conv2d(2 * wide, wide, 3, 1, 1)
        self.head = nn.Conv2d(wide, shape.vocabulary, 1)

    def forward(self, images: Any, targets: Any) -> Any:
        """The loss of every pixel."""
        beside = functional.silu(self.norm(self.first(images)))
        x = functional.silu(self.middle(functional.silu(self.down(beside))))
        x = functional.silu(self.last(torch.cat([self.up(x), beside], 1)))
        return self.scored(self.head(x).permute(0, 2, 3, 1), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random images and the classes of their pixels."""
        side = self.shape.side
        images = torch.randn(batch, 3, side, side, device=device, dtype=dtype)
        return images, torch.randint(self.shape.vocabulary, (batch, side, side), device=device)


RUN_NETS: dict[str, tuple[type[Net], Shape, int]] = {
    "gpt": (GPT, Shape(4, 256, 8, 1024, 2048, 128), 8),
    "llama": (Llama, Shape(3, 256, 8, 768, 2048, 128, key_heads=4), 8),
    "vit": (ViT, Shape(4, 256, 8, 1024, 128, 0, side=128), 16),
    "resnet-50": (ResNet, Shape(50, 32, 0, 0, 128, 0, side=96), 16),
    "experts": (Experts, Shape(3, 256, 8, 512, 128, 64), 8),
    "u-net": (UNet, Shape(1, 32, 0, 0, 8, 0, side=64), 8),
}
"""Class, sizes and batch."""


def exported(name: str, path: str) -> None:
    """Write a network as a file that a search reads."""
    kind, shape, batch = RUN_NETS[name]
    torch.manual_seed(0)
    net: Any = kind(shape)
    operands = net.operands(batch, "cpu", torch.float32)
    torch.export.save(torch.export.export(net, operands), path)
