"""Small networks with a loss, for the joint graphs of `make.py`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f


class Words(nn.Module):
    """Embedding, normalisation, activations and a likelihood."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, words: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor]:
        h = self.up(self.norm(self.table(words)))
        h = f.gelu(h) + f.gelu(h, approximate="tanh") * f.silu(h) + torch.sigmoid(h) * torch.tanh(h)
        return (f.cross_entropy(self.down(h).flatten(0, 1), target.flatten()),)


class Mixing(nn.Module):
    """Attention in small operators."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(4, 4, bias=False), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        scores = self.query(x) @ x.transpose(1, 2) / 2
        mixed = f.relu(scores.softmax(-1) @ self.value(x))
        return (f.mse_loss(mixed.log_softmax(-1), y),)


class Picture(nn.Module):
    """Convolutions and a normalisation over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4, track_running_stats=False)
        self.second = nn.Conv2d(4, 3, 2, dilation=2, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        h = self.second(f.relu(self.norm(self.first(x))))
        return (f.mse_loss(h.mean((2, 3)), y),)


class Heads(nn.Module):
    """Attention as one operator."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        parts = (h.view(2, 5, 2, 4).transpose(1, 2) for h in self.parts(x).chunk(3, -1))
        seen = f.scaled_dot_product_attention(*parts, is_causal=True)
        return (f.mse_loss(f.leaky_relu(seen.transpose(1, 2).flatten(2)), y),)


def networks() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(11)
    return {
        "words": (Words(), (torch.randint(0, 7, (2, 3)), torch.randint(0, 5, (2, 3)))),
        "mixing": (Mixing(), (torch.randn(2, 3, 4), torch.randn(2, 3, 4))),
        "heads": (Heads(), (torch.randn(2, 5, 8), torch.randn(2, 5, 8))),
        "picture": (Picture(), (torch.randn(2, 2, 7, 8), torch.randn(2, 3))),
    }
