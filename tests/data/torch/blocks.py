"""Four blocks of networks in PyTorch, for `make.py`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(512, 2048)
        self.down = nn.Linear(2048, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.relu(self.up(x)))


class Transformer(nn.Module):
    """A layer of a decoder."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.between = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, width = x.shape
        h = self.before(x)
        parts = (each(h).view(batch, rows, self.heads, -1).transpose(1, 2)
                 for each in (self.query, self.key, self.value))  # fmt: skip
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, rows, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Residual(nn.Module):
    """A bottleneck of a residual network."""

    def __init__(self, wide: int = 256, narrow: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide, narrow, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(narrow, narrow, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(narrow)
        self.conv3 = nn.Conv2d(narrow, wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + x)


class Experts(nn.Module):
    """A mixture of experts, two for each token."""

    def __init__(self, width: int = 512, inner: int = 1024, experts: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.into = nn.Parameter(torch.zeros(experts, width, inner))
        self.out = nn.Parameter(torch.zeros(experts, inner, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, width = x.shape
        weight, chosen = torch.topk(functional.softmax(self.gate(x), -1), 2)
        flat = chosen.reshape(-1)
        rows = x.repeat_interleave(2, 0).unsqueeze(1)
        made = torch.bmm(functional.gelu(torch.bmm(rows, self.into[flat])), self.out[flat])
        return (made.view(tokens, 2, width) * weight.unsqueeze(-1)).sum(1)


class Halves(nn.Module):
    """Rows two by two: their number must be even, and more than three."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if rows > 3:
            x = x * 2
        return torch.cat([x.view(rows // 2, 2, -1).flatten(0, 1), y])


BLOCKS = {
    "mlp": (Mlp, (64, 512)),
    "transformer": (Transformer, (8, 128, 512)),
    "residual": (Residual, (32, 256, 28, 28)),
    "experts": (Experts, (512, 512)),
}
"""Module and shape of its input."""
