"""Networks of ordinary torch code with random weights: GPT-2, Llama, ViT and ResNet-50.

Each keeps the blocks that it repeats in `blocks` and calls them through `through`, so that a
benchmark may compile a block or compute it again. Operands are made by `operands`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a transformer, or of images."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    tokens: int
    key_heads: int = 0
    """As many as `heads` where 0."""
    side: int = 0
    """Pixels of a side of an image."""


def _called(block: Any, *operands: Any) -> Any:
    return block(*operands)


class Net(nn.Module):
    """A network whose blocks are called by a function that may be exchanged."""

    through: Callable[..., Any] = staticmethod(_called)
    blocks: Any

    def scored(self, x: Any, targets: Any) -> Any:
        """The loss of scores, the last dimension of which are classes."""
        return functional.cross_entropy(x.flatten(0, -2), targets.flatten())


class Attention(nn.Module):
    """Softmax attention in one kernel, its weights in one product or in three."""

    def __init__(self, shape: Shape, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, causal
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Any) -> Any:
        """As wide as its operand."""
        batch, rows, width = x.shape
        parts = self.qkv(x).split(width, -1)
        q, k, v = (y.view(batch, rows, self.heads, -1).transpose(1, 2) for y in parts)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(found.transpose(1, 2).reshape(batch, rows, width))


class Layer(nn.Module):
    """Attention and a perceptron, each beside the residual."""

    def __init__(self, shape: Shape, *, causal: bool, approximate: str) -> None:
        super().__init__()
        self.approximate = approximate
        self.first, self.attention = nn.LayerNorm(shape.width), Attention(shape, causal=causal)
        self.second = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)

    def forward(self, x: Any) -> Any:
        """As wide as its operand."""
        x = x + self.attention(self.first(x))
        y = functional.gelu(self.up(self.second(x)), approximate=self.approximate)
        return x + self.down(y)


class GPT(Net):
    """GPT-2 without dropout; its table of tokens is also its table of scores."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.tokens, shape.width)
        layers = (Layer(shape, causal=True, approximate="tanh") for _ in range(shape.layers))
        self.blocks, self.norm = nn.ModuleList(layers), nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids: Any, targets: Any) -> Any:
        """The loss."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = self.through(block, x)
        return self.scored(self.head(self.norm(x)), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random tokens, and those that follow."""
        return _tokens(self.shape, batch, device, dtype)


class LlamaLayer(nn.Module):
    """Grouped attention with rotary positions, and a gated perceptron."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size = shape.width // shape.heads
        self.groups = shape.heads // shape.key_heads
        narrow = shape.key_heads * self.size
        self.first, self.second = nn.RMSNorm(shape.width), nn.RMSNorm(shape.width)
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, narrow, bias=False)
        self.v = nn.Linear(shape.width, narrow, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.inner, bias=False)
        self.up = nn.Linear(shape.width, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def _turned(self, x: Any, cosine: Any, sine: Any) -> Any:
        half = self.size // 2
        return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine

    def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
        """As wide as its operand."""
        y, (batch, rows, width) = self.first(x), x.shape
        q, k, v = (
            f(y).view(batch, rows, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        q, k = self._turned(q, cosine, sine), self._turned(k, cosine, sine)
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, rows, width))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(Net):
    """Llama with as many layers as its shape says."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens, self.norm = (
            nn.Embedding(shape.vocabulary, shape.width),
            nn.RMSNorm(shape.width),
        )
        self.blocks = nn.ModuleList(LlamaLayer(shape) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        size = shape.width // shape.heads
        speeds = 500000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(float(shape.tokens), device=speeds.device), speeds)
        self.register_buffer("cosine", torch.cat([angles.cos()] * 2, -1), persistent=False)
        self.register_buffer("sine", torch.cat([angles.sin()] * 2, -1), persistent=False)

    def forward(self, ids: Any, targets: Any) -> Any:
        """The loss."""
        x = self.tokens(ids)
        for block in self.blocks:
            x = self.through(block, x, self.cosine, self.sine)
        return self.scored(self.head(self.norm(x)), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random tokens, and those that follow."""
        return _tokens(self.shape, batch, device, dtype)


class ViT(Net):
    """A vision transformer with a token for the class."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        rows = (shape.side // 16) ** 2 + 1
        self.patches = nn.Conv2d(3, shape.width, 16, 16)
        self.word = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.places = nn.Parameter(torch.zeros(1, rows, shape.width))
        layers = (Layer(shape, causal=False, approximate="none") for _ in range(shape.layers))
        self.blocks, self.norm = nn.ModuleList(layers), nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary)

    def forward(self, images: Any, targets: Any) -> Any:
        """The loss."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.word.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = self.through(block, x)
        return self.scored(self.head(self.norm(x)[:, 0]), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random images and their classes."""
        return _images(self.shape, batch, device, dtype)


class Bottleneck(nn.Module):
    """Three convolutions beside a residual."""

    def __init__(self, wide: int, inner: int, out: int, stride: int) -> None:
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(wide, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.two = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.three, self.norm3 = nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)
        self.side = None
        if stride > 1 or wide != out:
            side = nn.Conv2d(wide, out, 1, stride, bias=False)
            self.side = nn.Sequential(side, nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        """The next picture."""
        y = functional.relu(self.norm1(self.one(x)), inplace=True)
        y = functional.relu(self.norm2(self.two(y)), inplace=True)
        beside = x if self.side is None else self.side(x)
        return functional.relu(self.norm3(self.three(y)) + beside, inplace=True)


class ResNet(Net):
    """ResNet-50; `width` is that of its first picture, `layers` scales its four stages."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.first = nn.Conv2d(3, shape.width, 7, 2, 3, bias=False)
        self.norm, blocks, wide = nn.BatchNorm2d(shape.width), [], shape.width
        counts = (3, 4, 6, 3) if shape.layers == 50 else (1, 1, 1, 1)
        for stage, count in enumerate(counts):
            inner = shape.width * 2**stage
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(Bottleneck(wide, inner, 4 * inner, stride))
                wide = 4 * inner
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(wide, shape.vocabulary)

    def forward(self, images: Any, targets: Any) -> Any:
        """The loss."""
        x = functional.relu(self.norm(self.first(images)), inplace=True)
        x = functional.max_pool2d(x, 3, 2, 1)
        for block in self.blocks:
            x = self.through(block, x)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.scored(self.head(x), targets)

    def operands(self, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
        """Random images, their channels last, and their classes."""
        images, targets = _images(self.shape, batch, device, dtype)
        return images.contiguous(memory_format=torch.channels_last), targets


def _tokens(shape: Shape, batch: int, device: str, _: Any) -> tuple[Any, Any]:
    ids = torch.randint(shape.vocabulary, (batch, shape.tokens + 1), device=device)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def _images(shape: Shape, batch: int, device: str, dtype: Any) -> tuple[Any, Any]:
    images = torch.randn(batch, 3, shape.side, shape.side, device=device, dtype=dtype)
    return images, torch.randint(shape.vocabulary, (batch,), device=device)


_LLAMA = Shape(4, 4096, 32, 14336, 128256, 2048, key_heads=8)
_GPT = Shape(48, 1600, 25, 6400, 50257, 1024)
NETS: dict[str, tuple[type[Net], Shape, tuple[int, ...]]] = {
    "gpt2-xl": (GPT, _GPT, (4, 2, 8)),
    "llama3-8b-4": (Llama, _LLAMA, (2, 1, 4)),
    "vit-large": (ViT, Shape(24, 1024, 16, 4096, 1000, 197, side=224), (64, 32, 128)),
    "resnet-50": (ResNet, Shape(50, 64, 0, 0, 1000, 0, side=224), (128, 64, 256)),
    "llama3-8b-8": (Llama, Shape(8, 4096, 32, 14336, 128256, 2048, key_heads=8), (2, 1, 4)),
}
"""Class, sizes, and batches in the order of their worth."""
SMALL: dict[str, tuple[type[Net], Shape, tuple[int, ...]]] = {
    "gpt2-xl": (GPT, Shape(2, 64, 4, 256, 128, 32), (2, 1, 4)),
    "llama3-8b-4": (Llama, Shape(2, 64, 4, 192, 128, 32, key_heads=2), (2, 1, 4)),
    "vit-large": (ViT, Shape(2, 64, 4, 256, 10, 0, side=32), (2, 1, 4)),
    "resnet-50": (ResNet, Shape(4, 16, 0, 0, 10, 0, side=32), (2, 1, 4)),
    "llama3-8b-8": (Llama, Shape(3, 64, 4, 192, 128, 32, key_heads=2), (2, 1, 4)),
}
"""The same where only the commands are to be tried."""


def built(name: str, device: str, dtype: Any, *, small: bool) -> Net:
    """A network on its device, its parameters of one type."""
    kind, shape, _ = (SMALL if small else NETS)[name]
    torch.manual_seed(0)
    with torch.device(device):
        net: Any = kind(shape)
    net = net.to(dtype=dtype)
    found: Net = net.to(memory_format=torch.channels_last) if name.startswith("resnet") else net
    return found
