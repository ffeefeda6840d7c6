"""Networks as MindSpore's tutorials and MindFormers write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from tests.mindspore_package.model_networks import (
    T5,
    Dlrm,
    Gpt2,
    Llama,
    Lstm,
    MixtureOfExperts,
    UNet,
    Vit,
)  # fmt: skip


class Mlp(nn.Cell):
    """The first network of the tutorials."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 512), nn.ReLU(), nn.Dense(512, 512), nn.ReLU(), nn.Dense(512, 16)
        )

    def construct(self, x: Any) -> Any:
        return self.dense_relu_sequential(self.flatten(x))


class LeNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(16, 32, 5, pad_mode="valid")
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc1, self.fc2, self.fc3 = nn.Dense(800, 128), nn.Dense(128, 64), nn.Dense(64, 16)

    def construct(self, x: Any) -> Any:
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class ResidualBlock(nn.Cell):
    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        middle = out // 4
        self.conv1 = nn.Conv2d(channels, middle, 1, weight_init="normal")
        self.norm1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, weight_init="normal")
        self.norm2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, out, 1, weight_init="normal")
        self.norm3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.down_sample = (
            nn.SequentialCell(nn.Conv2d(channels, out, 1, stride), nn.BatchNorm2d(out))
            if stride != 1 or channels != out
            else None
        )

    def construct(self, x: Any) -> Any:
        identity = x
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        if self.down_sample is not None:
            identity = self.down_sample(x)
        return self.relu(y + identity)


class ResNet(nn.Cell):
    """The tutorial's residual network, with fewer blocks."""

    def __init__(self, counts: tuple[int, ...] = (1, 1)) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, weight_init="normal")
        self.norm = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.max_pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="same")
        channels, layers = 64, []
        for stage, count in enumerate(counts):
            out = 256 * 2**stage
            blocks = []
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(ResidualBlock(channels, out, stride))
                channels = out
            layers.append(nn.SequentialCell(blocks))
        self.layers = nn.CellList(layers)
        self.avg_pool = nn.AvgPool2d(kernel_size=4)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(channels, 16)

    def construct(self, x: Any) -> Any:
        x = self.max_pool(self.relu(self.norm(self.conv1(x))))
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.flatten(self.avg_pool(x)))


class ResNet50(ResNet):
    def __init__(self) -> None:
        super().__init__((3, 4, 6, 3))


class SelfAttention(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v = (nn.Dense(width, width) for _ in range(3))
        self.out = nn.Dense(width, width)
        self.softmax = nn.Softmax(axis=-1)
        self.scores, self.mixed = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.transpose, self.reshape = ops.Transpose(), ops.Reshape()

    def _split(self, x: Any, batch: int, rows: int) -> Any:
        x = self.reshape(x, (batch, rows, self.heads, self.size))
        return self.transpose(x, (0, 2, 1, 3))

    def construct(self, x: Any) -> Any:
        batch, rows, width = x.shape
        q = self._split(self.q(x), batch, rows)
        k = self._split(self.k(x), batch, rows)
        v = self._split(self.v(x), batch, rows)
        scores = self.scores(q, k) * (self.size**-0.5)
        y = self.mixed(self.softmax(scores), v)
        y = self.reshape(self.transpose(y, (0, 2, 1, 3)), (batch, rows, width))
        return self.out(y)


class EncoderLayer(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.gelu = nn.GELU()

    def construct(self, x: Any) -> Any:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(self.gelu(self.up(x))))


class Bert(nn.Cell):
    """An encoder whose output is a product with its table of words."""

    def __init__(self, words: int = 1024, width: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.words = words
        self.embedding = nn.Embedding(words, width)
        self.position = ms.Parameter(ms.Tensor(np.ones((64, width), np.float32)), name="position")
        self.norm = nn.LayerNorm((width,))
        self.layers = nn.CellList([EncoderLayer(width, 4) for _ in range(layers)])
        self.logits = ops.MatMul(transpose_b=True)
        self.reshape = ops.Reshape()

    def construct(self, ids: Any) -> Any:
        x = self.norm(self.embedding(ids) + self.position)
        for layer in self.layers:
            x = layer(x)
        x = self.reshape(x, (-1, x.shape[-1]))
        return self.logits(x, self.embedding.embedding_table)


@dataclass(frozen=True)
class Example:
    """A network, its whole inputs, and the loss that trains it."""

    make: Callable[[], nn.Cell]
    inputs: tuple[Any, ...]


def _images(*shape: int) -> tuple[Any, ...]:
    return (np.ones(shape, np.float32),)


def _words(*shape: int) -> tuple[Any, ...]:
    return (np.zeros(shape, np.int32),)


NETWORKS: Mapping[str, Example] = {
    "Mlp": Example(Mlp, _images(256, 1, 28, 28)),
    "LeNet": Example(LeNet, _images(256, 1, 32, 32)),
    "ResNet50": Example(ResNet50, _images(64, 3, 128, 128)),
    "Bert": Example(Bert, _words(32, 64)),
    "Gpt2": Example(Gpt2, _words(32, 64)),
    "Llama": Example(Llama, _words(32, 64)),
    "MixtureOfExperts": Example(MixtureOfExperts, _images(256, 128)),
    "Dlrm": Example(Dlrm, (*_images(256, 16), *_words(256), *_words(256), *_words(256))),
    "UNet": Example(UNet, _images(32, 3, 64, 64)),
    "Lstm": Example(Lstm, _images(256, 128) * 5),
    "Vit": Example(Vit, _images(64, 3, 64, 64)),
    "T5": Example(T5, (*_words(32, 64), *_words(32, 64))),
}
"""By the name of the cell or function; `check` makes it by that name."""
