"""Networks that MindSpore exports and later compiles with the strategies of our plans: an MLP,
Transformers, ResNet-50. Each makes one number, its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def weight(*shape: int) -> ms.Parameter:
    values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    return ms.Parameter(ms.Tensor(values), name="weight")


class Linear(nn.Cell):
    """A product with a matrix, and a bias."""

    def __init__(self, rows: int, columns: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight, self.matmul = weight(rows, columns), ops.MatMul()
        self.has_bias = bias
        if bias:
            self.bias, self.add = weight(columns), ops.Add()
            self.bias.name = "bias"

    def construct(self, x: Any) -> Any:
        y = self.matmul(x, self.weight)
        return self.add(y, self.bias) if self.has_bias else y


class Mlp(nn.Cell):
    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.layers = nn.CellList([Linear(a, b, bias=False) for a, b in pairwise(sizes)])
        self.relu = ops.ReLU()

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = self.relu(layer(x))
        return x


class Norm(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma, self.beta, self.norm = weight(width), weight(width), ops.LayerNorm(1, 1, 1e-5)
        self.gamma.name, self.beta.name = "gamma", "beta"

    def construct(self, x: Any) -> Any:
        return self.norm(x, self.gamma, self.beta)[0]


class Block(nn.Cell):
    """Attention and two products, each behind a normalisation and beside its input."""

    def __init__(self, batch: int, rows: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.apart = (batch, rows, heads, width // heads)
        self.joined = (batch * rows, width)
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.output, self.up, self.down = (
            Linear(width, width), Linear(width, hidden), Linear(hidden, width),
        )  # fmt: skip
        self.reshape, self.transpose = ops.Reshape(), ops.Transpose()
        self.scores, self.mixed = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax, self.scale, self.gelu = ops.Softmax(-1), ops.Mul(), ops.GeLU()
        self.add1, self.add2 = ops.Add(), ops.Add()
        self.root = ms.Tensor((heads / width) ** 0.5, ms.float32)

    def _heads(self, x: Any) -> Any:
        return self.transpose(self.reshape(x, self.apart), (0, 2, 1, 3))

    def construct(self, x: Any) -> Any:
        y = self.norm1(x)
        q, k, v = self._heads(self.query(y)), self._heads(self.key(y)), self._heads(self.value(y))
        y = self.mixed(self.softmax(self.scale(self.scores(q, k), self.root)), v)
        y = self.reshape(self.transpose(y, (0, 2, 1, 3)), self.joined)
        x = self.add1(x, self.output(y))
        return self.add2(x, self.down(self.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Cell):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.blocks = nn.CellList([Block(16, 64, 256, 16, 1024) for _ in range(layers)])

    def construct(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


class Convolved(nn.Cell):
    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        same = {"pad_mode": "same", "has_bias": False, "weight_init": "normal"}
        self.conv = nn.Conv2d(channels, out, kernel, stride, **same)
        self.norm = nn.BatchNorm2d(out)

    def construct(self, x: Any) -> Any:
        return self.norm(self.conv(x))


class Bottleneck(nn.Cell):
    def __init__(self, channels: int, middle: int, stride: int) -> None:
        super().__init__()
        out = 4 * middle
        self.first, self.last = Convolved(channels, middle, 1), Convolved(middle, out, 1)
        self.second = Convolved(middle, middle, 3, stride)
        self.is_projected = channels != out or stride != 1
        if self.is_projected:
            self.shortcut = Convolved(channels, out, 1, stride)
        self.relu, self.add = ops.ReLU(), ops.Add()

    def construct(self, x: Any) -> Any:
        y = self.relu(self.first(x))
        y = self.last(self.relu(self.second(y)))
        x = self.shortcut(x) if self.is_projected else x
        return self.relu(self.add(x, y))


class ResNet50(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.relu, self.pool = (
            Convolved(3, 64, 7, 2),
            ops.ReLU(),
            ops.MaxPool(3, 2, "same"),
        )
        blocks, channels = [], 64
        for stage, (count, middle) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(Bottleneck(channels, middle, stride))
                channels = 4 * middle
        self.blocks = nn.CellList(blocks)
        self.mean, self.reshape = ops.ReduceMean(keep_dims=True), ops.Reshape()
        self.classes = Linear(channels, 1024)

    def construct(self, x: Any) -> Any:
        x = self.pool(self.relu(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        x = self.mean(x, (2, 3))
        return self.classes(self.reshape(x, (x.shape[0], x.shape[1])))


class WithLoss(nn.Cell):
    """The sum of what a network makes."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network, self.sum = network, ops.ReduceSum()

    def construct(self, x: Any) -> Any:
        return self.sum(self.network(x))


NETWORKS: Mapping[str, tuple[Callable[[], nn.Cell], tuple[int, ...]]] = {
    "mlp": (lambda: Mlp(1024, 4096, 4096, 1024), (256, 1024)),
    "transformer2": (lambda: Transformer(2), (16 * 64, 256)),
    "transformer8": (lambda: Transformer(8), (16 * 64, 256)),
    "resnet50": (ResNet50, (64, 3, 224, 224)),
}
"""A network and the shape of its whole input."""


def network_and_shape(name: str, mark: str = "") -> tuple[nn.Cell, tuple[int, ...]]:
    """A network with its loss, in a class of its own: MindSpore counts operators by scope for as
    long as the process lives, and classes are in scopes.
    """
    make, shape = NETWORKS[name]
    return type(f"WithLoss{mark}", (WithLoss,), {})(make()), shape


class Calling(nn.Cell):
    """A network within another, as `AutoParallel` puts it."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, x: Any) -> Any:
        return self.network(x)
