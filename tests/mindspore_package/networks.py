"""The small networks of the planner's tests as an engineer writes them for MindSpore.

Names of cells and parameters are those of the planned graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def weight(*shape: int) -> ms.Parameter:
    return ms.Parameter(ms.Tensor(np.ones(shape, np.float32)), name="weight")


class Product(nn.Cell):
    """`x · w`, or `x · wᵀ` with a bias, as `nn.Dense` flattens it."""

    def __init__(self, rows: int, columns: int, *, stored_transposed: bool, bias: int = 0) -> None:
        super().__init__()
        self.weight = weight(rows, columns)
        self.matmul = ops.MatMul(transpose_b=stored_transposed)
        self.columns = rows if stored_transposed else columns
        self.reshape = ops.Reshape()
        self.has_bias = bool(bias)
        if bias:
            self.bias = ms.Parameter(ms.Tensor(np.ones((bias,), np.float32)), name="bias")
            self.add = ops.Add()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        shape = x.shape
        flat = self.reshape(x, (-1, shape[-1])) if len(shape) > 2 else x
        y = self.matmul(flat, self.weight)
        y = self.reshape(y, (*shape[:-1], self.columns)) if len(shape) > 2 else y
        return self.add(y, self.bias) if self.has_bias else y


class WidePerceptron(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        shapes = ((128, 512), (512, 512), (512, 128))
        self.layers = nn.CellList([Product(r, c, stored_transposed=False) for r, c in shapes])
        self.relu1, self.relu2 = ops.ReLU(), ops.ReLU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.relu1(self.layers[0](x))
        x = self.relu2(self.layers[1](x))
        return self.layers[2](x)


class Embedding(nn.Cell):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = weight(rows, columns)
        self.gather = ops.Gather()

    def construct(self, ids: ms.Tensor) -> ms.Tensor:
        return self.gather(self.weight, ids, 0)


class Norm(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = weight(width)
        self.bias = ms.Parameter(ms.Tensor(np.ones((width,), np.float32)), name="bias")
        self.norm = ops.LayerNorm(2, 2, 1e-5)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.norm(x, self.weight, self.bias)[0]


class Scale(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = weight(width)
        self.mul = ops.Mul()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.mul(self.weight, x)


class LanguageModel(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        width, hidden, words = 64, 128, 512
        self.embed, self.norm = Embedding(words, width), Norm(width)
        self.up = Product(hidden, width, stored_transposed=True, bias=hidden)
        self.down = Product(width, hidden, stored_transposed=True)
        self.final, self.head = Scale(width), Product(words, width, stored_transposed=True)
        self.gelu, self.add, self.pow = ops.GeLU(), ops.Add(), ops.Pow()
        self.mean, self.sqrt, self.div = ops.ReduceMean(keep_dims=True), ops.Sqrt(), ops.RealDiv()
        self.two = ms.Tensor(2.0, ms.float32)

    def construct(self, ids: ms.Tensor) -> ms.Tensor:
        x = self.embed(ids)
        x = self.add(x, self.down(self.gelu(self.up(self.norm(x)))))
        root = self.sqrt(self.mean(self.pow(x, self.two), (-1,)))
        return self.head(self.final(self.div(x, root)))


class Twist(ops.PrimitiveWithInfer):
    """A primitive of the network's own; the last size that it saw is that of a device."""

    seen: tuple[list[int], ...] = ()

    def __init__(self) -> None:
        super().__init__("Twist")
        self.init_prim_io_names(inputs=["x"], outputs=["y"])

    def infer_shape(self, x: list[int]) -> list[int]:
        Twist.seen = (*Twist.seen, x)
        return x

    def infer_dtype(self, x: Any) -> Any:
        return x


class TwistedModel(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up = Product(128, 256, stored_transposed=False)
        self.twist = Twist()
        self.down = Product(256, 128, stored_transposed=False)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.down(self.twist(self.up(x)))


NETWORKS: dict[str, tuple[Callable[[], nn.Cell], Any]] = {
    "wide_perceptron": (WidePerceptron, np.ones((16, 128), np.float32)),
    "language_model": (LanguageModel, np.zeros((16, 32), np.int32)),
    "twisted_model": (TwistedModel, np.ones((16, 128), np.float32)),
}
"""A network and its whole input, by the name that the planner's tests have for the graph."""
