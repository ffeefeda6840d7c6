"""Models as MindFormers and MindSpore's model zoo write them, small."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def parameter(name: str, *shape: int) -> ms.Parameter:
    return ms.Parameter(ms.Tensor(np.ones(shape, np.float32)), name=name)


class CausalAttention(nn.Cell):
    def __init__(self, width: int, heads: int, groups: int, rows: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.wq = nn.Dense(width, width, has_bias=False)
        self.wk = nn.Dense(width, groups * self.size, has_bias=False)
        self.wv = nn.Dense(width, groups * self.size, has_bias=False)
        self.wo = nn.Dense(width, width, has_bias=False)
        self.reshape, self.transpose = ops.Reshape(), ops.Transpose()
        self.scores, self.mixed = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax, self.add, self.mul = ops.Softmax(), ops.Add(), ops.Mul()
        self.tile = ops.Tile()
        self.scale = ms.Tensor(self.size**-0.5, ms.float32)
        mask = np.triu(np.full((rows, rows), -10000.0, np.float32), 1)
        self.mask = ms.Tensor(mask[None, None])

    def construct(self, x: Any) -> Any:
        batch, rows, width = x.shape
        q = self.reshape(self.wq(x), (batch, rows, self.heads, self.size))
        k = self.reshape(self.wk(x), (batch, rows, self.groups, self.size))
        v = self.reshape(self.wv(x), (batch, rows, self.groups, self.size))
        q = self.transpose(q, (0, 2, 1, 3))
        k, v = self.transpose(k, (0, 2, 1, 3)), self.transpose(v, (0, 2, 1, 3))
        if self.groups != self.heads:
            times = self.heads // self.groups
            whole = (batch, self.heads, rows, self.size)
            k = self.reshape(self.tile(k, (1, 1, times, 1)), whole)
            v = self.reshape(self.tile(v, (1, 1, times, 1)), whole)
        scores = self.add(self.mul(self.scores(q, k), self.scale), self.mask)
        y = self.transpose(self.mixed(self.softmax(scores), v), (0, 2, 1, 3))
        return self.wo(self.reshape(y, (batch, rows, width)))


class GptBlock(nn.Cell):
    def __init__(self, width: int, heads: int, rows: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.attention = CausalAttention(width, heads, heads, rows)
        self.mapping, self.projection = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.activation, self.add = nn.GELU(), ops.Add()

    def construct(self, x: Any) -> Any:
        x = self.add(x, self.attention(self.ln1(x)))
        return self.add(x, self.projection(self.activation(self.mapping(self.ln2(x)))))


class Gpt2(nn.Cell):
    def __init__(self, words: int = 2048, width: int = 256, rows: int = 64) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(rows, width)
        self.places = ms.Tensor(np.arange(rows, dtype=np.int32)[None])
        self.blocks = nn.CellList([GptBlock(width, 8, rows) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm((width,)), nn.Dense(width, words, has_bias=False)

    def construct(self, ids: Any) -> Any:
        x = self.wte(ids) + self.wpe(self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LlamaNorm(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = parameter("weight", width)
        self.square, self.mean = ops.Square(), ops.ReduceMean(keep_dims=True)
        self.rsqrt, self.mul, self.mul2, self.add = ops.Rsqrt(), ops.Mul(), ops.Mul(), ops.Add()
        self.eps = ms.Tensor(1e-6, ms.float32)

    def construct(self, x: Any) -> Any:
        root = self.rsqrt(self.add(self.mean(self.square(x), -1), self.eps))
        return self.mul2(self.mul(x, root), self.weight)


class LlamaFeedForward(nn.Cell):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Dense(width, hidden, has_bias=False)
        self.w2 = nn.Dense(hidden, width, has_bias=False)
        self.w3 = nn.Dense(width, hidden, has_bias=False)
        self.silu, self.mul = nn.SiLU(), ops.Mul()

    def construct(self, x: Any) -> Any:
        return self.w2(self.mul(self.silu(self.w1(x)), self.w3(x)))


class LlamaBlock(nn.Cell):
    def __init__(self, width: int, rows: int) -> None:
        super().__init__()
        self.attention = CausalAttention(width, 8, 4, rows)
        self.feed_forward = LlamaFeedForward(width, 512)
        self.attention_norm, self.ffn_norm = LlamaNorm(width), LlamaNorm(width)
        self.add = ops.Add()

    def construct(self, x: Any) -> Any:
        x = self.add(x, self.attention(self.attention_norm(x)))
        return self.add(x, self.feed_forward(self.ffn_norm(x)))


class Llama(nn.Cell):
    def __init__(self, words: int = 2048, width: int = 256, rows: int = 64) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.CellList([LlamaBlock(width, rows) for _ in range(2)])
        self.norm_out, self.lm_head = LlamaNorm(width), nn.Dense(width, words, has_bias=False)

    def construct(self, ids: Any) -> Any:
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm_out(x))


class Experts(nn.Cell):
    """All experts on all tokens, weighted by the router."""

    def __init__(self, width: int, hidden: int, count: int) -> None:
        super().__init__()
        self.router = nn.Dense(width, count, has_bias=False)
        self.up, self.down = (
            parameter("up", count, width, hidden),
            parameter("down", count, hidden, width),
        )
        self.softmax, self.relu = ops.Softmax(), ops.ReLU()
        self.first, self.second = ops.BatchMatMul(), ops.BatchMatMul()
        self.expand, self.transpose = ops.ExpandDims(), ops.Transpose()
        self.mul, self.sum = ops.Mul(), ops.ReduceSum()
        self.tile = ops.Tile()
        self.count = count

    def construct(self, x: Any) -> Any:
        chance = self.expand(self.transpose(self.softmax(self.router(x)), (1, 0)), -1)
        y = self.tile(self.expand(x, 0), (self.count, 1, 1))
        y = self.second(self.relu(self.first(y, self.up)), self.down)
        return self.sum(self.mul(y, chance), 0)


class MixtureOfExperts(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense_in, self.experts = nn.Dense(128, 256), Experts(256, 512, 16)
        self.dense_out = nn.Dense(256, 128)

    def construct(self, x: Any) -> Any:
        x = self.dense_in(x)
        return self.dense_out(x + self.experts(x))


class Dlrm(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.CellList([nn.Embedding(4096, 32) for _ in range(3)])
        self.bottom = nn.SequentialCell(nn.Dense(16, 64), nn.ReLU(), nn.Dense(64, 32), nn.ReLU())
        self.top = nn.SequentialCell(nn.Dense(128, 64), nn.ReLU(), nn.Dense(64, 16))
        self.concat = ops.Concat(1)

    def construct(self, dense: Any, first: Any, second: Any, third: Any) -> Any:
        found = (self.tables[0](first), self.tables[1](second), self.tables[2](third))
        return self.top(self.concat((self.bottom(dense), *found)))


class DoubleConv(nn.Cell):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.SequentialCell(
            nn.Conv2d(channels, out, 3), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3), nn.BatchNorm2d(out), nn.ReLU(),
        )  # fmt: skip

    def construct(self, x: Any) -> Any:
        return self.conv(x)


class UNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = (
            DoubleConv(3, 32),
            DoubleConv(32, 64),
            DoubleConv(64, 128),
        )
        self.pool = nn.MaxPool2d(2, 2)
        self.grow2, self.grow1 = nn.Conv2dTranspose(128, 64, 2, 2), nn.Conv2dTranspose(64, 32, 2, 2)
        self.up2, self.up1 = DoubleConv(128, 64), DoubleConv(64, 32)
        self.concat, self.last = ops.Concat(1), nn.Conv2d(32, 16, 1)

    def construct(self, x: Any) -> Any:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        y = self.middle(self.pool(second))
        y = self.up2(self.concat((second, self.grow2(y))))
        return self.last(self.up1(self.concat((first, self.grow1(y)))))


class LstmStep(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Dense(width, 4 * width), nn.Dense(width, 4 * width)
        self.sigmoid, self.tanh, self.split = nn.Sigmoid(), nn.Tanh(), ops.Split(1, 4)

    def construct(self, x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = self.split(self.of_input(x) + self.of_state(h))
        c = self.sigmoid(f) * c + self.sigmoid(i) * self.tanh(g)
        return self.sigmoid(o) * self.tanh(c), c


class Lstm(nn.Cell):
    """Three steps written out: MindSpore has no distributed LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.fc = LstmStep(128), nn.Dense(128, 16)

    def construct(self, x0: Any, x1: Any, x2: Any, h: Any, c: Any) -> Any:
        h, c = self.step(x0, h, c)
        h, c = self.step(x1, h, c)
        h, c = self.step(x2, h, c)
        return self.fc(h)


class VitBlock(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.ln1, self.ln2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.qkv, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.fc1, self.fc2, self.gelu = (
            nn.Dense(width, 4 * width),
            nn.Dense(4 * width, width),
            nn.GELU(),
        )
        self.softmax = nn.Softmax(-1)
        self.scores, self.mixed = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()

    def _attention(self, x: Any) -> Any:
        batch, rows, width = x.shape
        q, k, v = ops.split(self.qkv(x), width, 2)
        apart = (batch, rows, self.heads, self.size)
        q, k, v = (q.reshape(apart), k.reshape(apart), v.reshape(apart))
        q, k, v = (q.transpose(0, 2, 1, 3), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))
        y = self.mixed(self.softmax(self.scores(q, k) * self.size**-0.5), v)
        return self.out(y.transpose(0, 2, 1, 3).reshape((batch, rows, width)))

    def construct(self, x: Any) -> Any:
        x = x + self._attention(self.ln1(x))
        return x + self.fc2(self.gelu(self.fc1(self.ln2(x))))


class Vit(nn.Cell):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8, pad_mode="valid", has_bias=True)
        self.position = parameter("position", 1, 64, width)
        self.blocks = nn.SequentialCell([VitBlock(width, 4) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm((width,)), nn.Dense(width, 16)
        self.mean = ops.ReduceMean()

    def construct(self, x: Any) -> Any:
        x = self.patches(x)
        batch, width = x.shape[0], x.shape[1]
        x = x.reshape((batch, width, 64)).transpose(0, 2, 1) + self.position
        return self.head(self.mean(self.norm(self.blocks(x)), 1))


class T5Attention(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Dense(width, width, has_bias=False) for _ in range(4))
        self.scores, self.mixed = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax, self.reshape, self.transpose = ops.Softmax(), ops.Reshape(), ops.Transpose()

    def _heads(self, x: Any) -> Any:
        x = self.reshape(x, (x.shape[0], x.shape[1], self.heads, self.size))
        return self.transpose(x, (0, 2, 1, 3))

    def construct(self, x: Any, memory: Any) -> Any:
        q, k, v = self._heads(self.q(x)), self._heads(self.k(memory)), self._heads(self.v(memory))
        y = self.transpose(self.mixed(self.softmax(self.scores(q, k)), v), (0, 2, 1, 3))
        return self.o(self.reshape(y, x.shape))


class T5Layer(nn.Cell):
    def __init__(self, width: int, *, crossed: bool) -> None:
        super().__init__()
        self.own, self.norm = T5Attention(width, 4), LlamaNorm(width)
        self.crossed = crossed
        if crossed:
            self.cross, self.cross_norm = T5Attention(width, 4), LlamaNorm(width)
        self.wi, self.wo = (
            nn.Dense(width, 4 * width, has_bias=False), nn.Dense(4 * width, width, has_bias=False),
        )  # fmt: skip
        self.ff_norm, self.relu = LlamaNorm(width), nn.ReLU()

    def construct(self, x: Any, memory: Any) -> Any:
        y = self.norm(x)
        x = x + self.own(y, y)
        if self.crossed:
            x = x + self.cross(self.cross_norm(x), memory)
        return x + self.wo(self.relu(self.wi(self.ff_norm(x))))


class T5(nn.Cell):
    def __init__(self, words: int = 1024, width: int = 128) -> None:
        super().__init__()
        self.shared = nn.Embedding(words, width)
        self.encoder, self.decoder = T5Layer(width, crossed=False), T5Layer(width, crossed=True)
        self.encoder_norm, self.decoder_norm = LlamaNorm(width), LlamaNorm(width)
        self.head = nn.Dense(width, words, has_bias=False)

    def construct(self, ids: Any, targets: Any) -> Any:
        x = self.shared(ids)
        memory = self.encoder_norm(self.encoder(x, x))
        return self.head(self.decoder_norm(self.decoder(self.shared(targets), memory)))
