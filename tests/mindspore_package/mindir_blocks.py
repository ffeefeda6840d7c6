"""Four blocks of networks in MindSpore, for `write_mindir`: those of `tests/data/torch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.common import lazy_inline


class Mlp(nn.Cell):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Dense(512, 2048), nn.Dense(2048, 512)
        self.relu = nn.ReLU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.down(self.relu(self.up(x)))


class Transformer(nn.Cell):
    """A layer of a decoder."""

    def __init__(self, width: int = 512, heads: int = 8, rows: int = 128) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm((width,), epsilon=1e-5)
        self.query, self.key = nn.Dense(width, width), nn.Dense(width, width)
        self.value, self.out = nn.Dense(width, width), nn.Dense(width, width)
        self.between = nn.LayerNorm((width,), epsilon=1e-5)
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.gelu, self.softmax = nn.GELU(), nn.Softmax(-1)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mixed = ops.BatchMatMul()
        hidden = np.triu(np.full((rows, rows), -np.inf, np.float32), 1)
        self.hidden = ms.Tensor(hidden)

    def apart(self, x: ms.Tensor) -> ms.Tensor:
        batch, rows, width = x.shape
        return x.reshape(batch, rows, self.heads, width // self.heads).transpose(0, 2, 1, 3)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        batch, rows, width = x.shape
        h = self.before(x)
        query, key, value = self.apart(self.query(h)), self.apart(self.key(h)), self.value(h)
        scores = self.scores(query, key) * (width // self.heads) ** -0.5
        seen = self.mixed(self.softmax(scores + self.hidden), self.apart(value))
        x = x + self.out(seen.transpose(0, 2, 1, 3).reshape(batch, rows, width))
        return x + self.down(self.gelu(self.up(self.between(x))))


class Residual(nn.Cell):
    """A bottleneck of a residual network."""

    def __init__(self, wide: int = 256, narrow: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide, narrow, 1)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(narrow, narrow, 3, pad_mode="pad", padding=1)
        self.bn2 = nn.BatchNorm2d(narrow)
        self.conv3 = nn.Conv2d(narrow, wide, 1)
        self.bn3 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + x)


class Experts(nn.Cell):
    """A mixture of experts, two for each token."""

    def __init__(self, width: int = 512, inner: int = 1024, experts: int = 8) -> None:
        super().__init__()
        self.gate = nn.Dense(width, experts, has_bias=False)
        into, out = np.zeros((experts, width, inner)), np.zeros((experts, inner, width))
        self.into = ms.Parameter(ms.Tensor(into, ms.float32), name="into")
        self.out = ms.Parameter(ms.Tensor(out, ms.float32), name="out")
        self.gelu = nn.GELU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        tokens, width = x.shape
        weight, chosen = ops.topk(ops.softmax(self.gate(x), -1), 2)
        flat = chosen.reshape(-1)
        twice = ops.broadcast_to(x.expand_dims(1), (tokens, 2, width))
        rows = twice.reshape(-1, width).expand_dims(1)
        first = ops.bmm(rows, ops.gather(self.into, flat, 0))
        made = ops.bmm(self.gelu(first), ops.gather(self.out, flat, 0))
        return (made.reshape(tokens, 2, width) * weight.expand_dims(-1)).sum(1)


class Layer(nn.Cell):
    """One of several that MindSpore compiles once."""

    @lazy_inline  # type: ignore[untyped-decorator]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.relu = nn.Dense(width, width), nn.ReLU()

    def construct(self, x: ms.Tensor) -> tuple[ms.Tensor, ms.Tensor]:
        return self.relu(self.up(x)), x


class Calls(nn.Cell):
    """A function that is called three times, and several results."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer(width) for _ in range(3)])

    def construct(self, x: ms.Tensor, y: ms.Tensor) -> Any:
        before = y
        for layer in self.layers:
            x, before = layer(x)
        return x, before + y, ops.split(x, 2, 1)


class Branch(nn.Cell):
    """What runs depends on the data."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.dense = nn.Dense(width, width)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        if x.sum() > 0:
            return self.dense(x)
        return x * 3


BLOCKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (Mlp, (64, 512)),
    "transformer": (Transformer, (8, 128, 512)),
    "residual": (Residual, (32, 256, 28, 28)),
    "experts": (Experts, (512, 512)),
}
"""Cell and shape of its input."""
