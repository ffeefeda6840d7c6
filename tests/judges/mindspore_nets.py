"""The graphs of `tests.judges.mindspore_graphs` as an engineer writes them for MindSpore.

Run in MindSpore's environment in place of the judge's own script. A cell gives its primitives the
strategies that the case has for the operators of the same names, and knows nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.ops.auto_generate import SiLU

from executors.mindspore.script.loss import SoftmaxLoss
from executors.mindspore.script.program import main

Strategy = tuple[tuple[int, ...], ...]


class Net(nn.Cell):
    """What the nets share: strategies by name, and parameters."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__()
        self.case = case
        self.cuts: dict[str, Strategy] = {
            op["name"]: tuple(tuple(each or ()) for each in op["cuts"]) for op in case["ops"]
        }

    def of(self, primitive: Any, name: str, *more: tuple[int, ...]) -> Any:
        return primitive.shard((*self.cuts[name], *more))

    def weight(self, name: str, *, trained: bool = True) -> ms.Parameter:
        dims = self.case["tensors"][name]["dims"]
        value = ms.Parameter(ms.Tensor(np.ones(dims, np.float32)), name, requires_grad=trained)
        value.parallel_optimizer = name in self.case["shared"]
        return value

    def loss(self, name: str) -> SoftmaxLoss:
        dims = tuple(self.case["tensors"][name]["dims"])
        return SoftmaxLoss(dims, self.cuts[f"loss/{name}"][0], ms.float32)


class Dense(Net):
    def __init__(self, case: Mapping[str, Any], name: str) -> None:
        super().__init__(case)
        self.w = self.weight(f"{name}.w")
        flat = len(self.cuts[f"op_{name}"][0]) == 2
        self.product = self.of(ops.MatMul() if flat else ops.BatchMatMul(), f"op_{name}")

    def construct(self, x: Any) -> Any:
        return self.product(x, self.w)


class Perceptron(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.fc0, self.fc1, self.fc2 = (Dense(case, f"fc{i}") for i in range(3))
        self.relu1 = self.of(ops.ReLU(), "op_relu_1")
        self.relu3 = self.of(ops.ReLU(), "op_relu_3")
        self.end = self.loss("fc2")

    def construct(self, x: Any) -> Any:
        x = self.relu3(self.fc1(self.relu1(self.fc0(x))))
        return self.end(self.fc2(x))


class Head(Net):
    """Query, key or value with its heads apart."""

    def __init__(self, case: Mapping[str, Any], name: str, number: int) -> None:
        super().__init__(case)
        self.dense, self.reshape = Dense(case, name), ops.Reshape()
        self.transpose = self.of(ops.Transpose(), f"op_transpose_{number}")

    def construct(self, x: Any) -> Any:
        return self.transpose(self.reshape(self.dense(x), (8, 32, 8, 16)), (0, 2, 1, 3))


class Attention(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.first, self.o = Dense(case, "first"), Dense(case, "o")
        self.q, self.k, self.v = (Head(case, n, 3 + 3 * i) for i, n in enumerate("qkv"))
        self.scores = self.of(ops.BatchMatMul(transpose_b=True), "op_scores")
        self.softmax = self.of(ops.Softmax(3), "op_softmax_11")
        self.mixed = self.of(ops.BatchMatMul(), "op_mixed")
        self.transpose, self.reshape = self.of(ops.Transpose(), "op_transpose_13"), ops.Reshape()
        self.add = self.of(ops.Add(), "op_add_16")
        self.end = self.loss("add_16")

    def construct(self, x: Any) -> Any:
        start = self.first(x)
        scores = self.softmax(self.scores(self.q(start), self.k(start)))
        y = self.transpose(self.mixed(scores, self.v(start)), (0, 2, 1, 3))
        y = self.o(self.reshape(y, (8, 32, 128)))
        return self.end(self.add(start, y))


class Convolved(Net):
    """A convolution and its batch normalisation."""

    def __init__(self, case: Mapping[str, Any], name: str, kernel: int, number: int) -> None:
        super().__init__(case)
        self.w = self.weight(f"{name}.w")
        conv = ops.Conv2D(32, kernel, pad_mode="pad", pad=kernel // 2)
        self.conv = self.of(conv, f"op_conv_{number}")
        self.norm = self.of(ops.BatchNorm(is_training=True), f"op_batchnormalization_{number + 1}")
        self.scale, self.shift = self.weight(f"{name}.scale"), self.weight(f"{name}.shift")
        self.mean = self.weight(f"{name}.mean", trained=False)
        self.variance = self.weight(f"{name}.variance", trained=False)

    def construct(self, x: Any) -> Any:
        y = self.conv(x, self.w)
        return self.norm(y, self.scale, self.shift, self.mean, self.variance)[0]


class ResidualConvolutions(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.first, self.second = Convolved(case, "first", 3, 0), Convolved(case, "second", 3, 3)
        self.short = Convolved(case, "short", 1, 5)
        self.relu2, self.relu8 = self.of(ops.ReLU(), "op_relu_2"), self.of(ops.ReLU(), "op_relu_8")
        self.add, self.end = self.of(ops.Add(), "op_add_7"), self.loss("relu_8")

    def construct(self, x: Any) -> Any:
        y = self.second(self.relu2(self.first(x)))
        return self.end(self.relu8(self.add(y, self.short(x))))


class TiedEmbedding(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.table = self.weight("table")
        self.gather = self.of(ops.Gather(), "op_gather_0")
        self.tanh = self.of(ops.Tanh(), "op_tanh_1")
        self.logits = self.of(ops.MatMul(transpose_b=True), "op_logits")
        self.end = self.loss("logits")

    def construct(self, ids: Any) -> Any:
        x = self.tanh(self.gather(self.table, ids, 0))
        return self.end(self.logits(x, self.table))


class ClassLoss(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.fc = Dense(case, "fc")
        self.top = self.of(ops.ReduceMax(keep_dims=True), "op_top")
        self.sub = self.of(ops.Sub(), "op_sub_2")
        self.exp = self.of(ops.Exp(), "op_exp_3")
        self.total = self.of(ops.ReduceSum(keep_dims=True), "op_reducesum_4")
        self.div = self.of(ops.RealDiv(), "op_div_5")
        self.log = self.of(ops.Log(), "op_log_6")
        self.mul = self.of(ops.Mul(), "op_mul_7")
        self.sum = self.of(ops.ReduceSum(), "op_reducesum_8")
        self.neg = self.of(ops.Neg(), "op_neg_9")
        self.mean = self.of(ops.ReduceMean(), "op_reducemean_10")

    def construct(self, x: Any, label: Any) -> Any:
        x = self.fc(x)
        power = self.exp(self.sub(x, ops.stop_gradient(self.top(x, 1))))
        likely = self.log(self.div(power, self.total(power, 1)))
        return self.mean(self.neg(self.sum(self.mul(likely, label), 1)), 0)


class MismatchedEdges(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.scale = self.weight("scale")
        self.mul = self.of(ops.Mul(), "op_mul_0")
        self.turn1 = self.of(ops.Transpose(), "op_transpose_1")
        self.tanh = self.of(ops.Tanh(), "op_tanh_2")
        self.turn3 = self.of(ops.Transpose(), "op_transpose_3")
        self.softmax = self.of(ops.Softmax(2), "op_softmax_4")
        self.sqrt, self.end = self.of(ops.Sqrt(), "op_sqrt_5"), self.loss("sqrt_5")

    def construct(self, x: Any) -> Any:
        x = self.tanh(self.turn1(self.mul(x, self.scale), (2, 0, 1)))
        return self.end(self.sqrt(self.softmax(self.turn3(x, (2, 1, 0)))))


class RepeatedWork(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.up, self.down, self.last = (Dense(case, n) for n in ("up", "down", "last"))
        self.relu = self.of(ops.ReLU(), "op_relu_1")
        self.sigmoid = self.of(ops.Sigmoid(), "op_sigmoid_3")
        self.end = self.loss("last")

    def construct(self, x: Any) -> Any:
        return self.end(self.last(self.sigmoid(self.down(self.relu(self.up(x))))))


class Convolutions(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.first, self.second = self.weight("first"), self.weight("second")
        self.conv0 = self.of(ops.Conv2D(32, 3, pad_mode="same"), "op_conv_0")
        self.relu = self.of(ops.ReLU(), "op_relu_1")
        self.pool2 = self.of(ops.MaxPool(2, 2), "op_maxpool_2")
        self.conv3 = self.of(ops.Conv2D(64, 1), "op_conv_3")
        self.pool4 = self.of(ops.AvgPool(2, 2), "op_averagepool_4")
        self.mean = self.of(ops.ReduceMean(keep_dims=True), "op_globalaveragepool_5")
        self.squeeze = self.of(ops.Squeeze((2, 3)), "op_squeeze_6")
        self.fc, self.end = Dense(case, "fc"), self.loss("fc")

    def construct(self, x: Any) -> Any:
        x = self.pool2(self.relu(self.conv0(x, self.first)))
        x = self.mean(self.pool4(self.conv3(x, self.second)), (2, 3))
        return self.end(self.fc(self.squeeze(x)))


class NormalisedBlock(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.first, self.up, self.down = (Dense(case, n) for n in ("first", "up", "down"))
        self.up_bias, self.down_bias = self.weight("up.b"), self.weight("down.b")
        self.scale, self.shift = self.weight("norm.scale"), self.weight("norm.shift")
        self.last = self.weight("last")
        self.norm = self.of(ops.LayerNorm(1, 1, 1e-5), "op_layernormalization_1")
        self.add3 = self.of(ops.Add(), "op_add_3")
        self.gelu = self.of(ops.GeLU(), "op_gelu_4")
        self.add6, self.add7 = self.of(ops.Add(), "op_add_6"), self.of(ops.Add(), "op_add_7")
        self.rms = self.of(ops.RmsNorm(), "op_rmsnormalization_8")
        self.end = self.loss("rmsnormalization_8")

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        y = self.norm(x, self.scale, self.shift)[0]
        y = self.gelu(self.add3(self.up(y), self.up_bias))
        x = self.add7(x, self.add6(self.down(y), self.down_bias))
        return self.end(self.rms(x, self.last)[0])


class ResidualAdditions(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.first, self.branch0, self.branch1 = (
            Dense(case, n) for n in ("first", "branch0", "branch1")
        )
        self.sigmoid1 = self.of(ops.Sigmoid(), "op_sigmoid_1")
        self.mul3, self.sub4 = self.of(ops.Mul(), "op_mul_3"), self.of(ops.Sub(), "op_sub_4")
        self.sigmoid5 = self.of(ops.Sigmoid(), "op_sigmoid_5")
        self.mul7, self.sub8 = self.of(ops.Mul(), "op_mul_7"), self.of(ops.Sub(), "op_sub_8")
        self.end = self.loss("sub_8")

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        x = self.sub4(x, self.mul3(self.sigmoid1(x), self.branch0(x)))
        x = self.sub8(x, self.mul7(self.sigmoid5(x), self.branch1(x)))
        return self.end(x)


class EmbeddedPerceptron(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.table = self.weight("table")
        self.gather = self.of(ops.Gather(), "op_gather_0")
        self.up, self.down = Dense(case, "up"), Dense(case, "down")
        self.silu, self.end = self.of(SiLU(), "op_swish_2"), self.loss("down")

    def construct(self, ids: Any) -> Any:
        return self.end(self.down(self.silu(self.up(self.gather(self.table, ids, 0)))))


class ProductChain(Net):
    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.a, self.b, self.c = (self.weight(n) for n in "abc")
        self.product0 = self.of(ops.BatchMatMul(), "op_matmul_0")
        self.exp = self.of(ops.Exp(), "op_exp_1")
        self.product2 = self.of(ops.BatchMatMul(transpose_b=True), "op_matmul_2")
        self.turn = self.of(ops.Transpose(), "op_transpose_3")
        self.mean = self.of(ops.ReduceMean(keep_dims=True), "op_reducemean_4")
        self.sub = self.of(ops.Sub(), "op_sub_5")
        self.product6 = self.of(ops.BatchMatMul(), "op_matmul_6")
        self.end = self.loss("matmul_6")

    def construct(self, x: Any) -> Any:
        x = self.product2(self.exp(self.product0(x, self.a)), self.b)
        x = self.turn(x, (0, 2, 1))
        x = self.sub(x, self.mean(x, 2))
        return self.end(self.product6(x, self.c))


NETS: Mapping[str, Callable[[Mapping[str, Any]], nn.Cell]] = {
    "perceptron": Perceptron,
    "attention": Attention,
    "residual_convolutions": ResidualConvolutions,
    "tied_embedding": TiedEmbedding,
    "class_loss": ClassLoss,
    "mismatched_edges": MismatchedEdges,
    "repeated_work": RepeatedWork,
    "convolutions": Convolutions,
    "normalised_block": NormalisedBlock,
    "residual_additions": ResidualAdditions,
    "embedded_perceptron": EmbeddedPerceptron,
    "product_chain": ProductChain,
}


def net_of(
    case: Mapping[str, Any], numbers: Mapping[str, Any], folder: Path
) -> tuple[nn.Cell, dict[str, str]]:
    """The cell of a case, which is called `<graph>_<number>`."""
    return NETS[case["name"].rpartition("_")[0]](case), {}


if __name__ == "__main__":
    main(net_of)
