"""The networks of `mindspore_nets.py` as graphs: one operator for each primitive of MindSpore.

The scope of an operator is the path of the cell that holds the primitive, as MindSpore writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor

BATCH, ROWS, WIDTH, HEADS, HIDDEN = 16, 512, 1024, 16, 4096
IMAGES, CLASSES = 64, 1024
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and channels of each stage of ResNet-50."""


class _Graph:
    """Collects operators in order."""

    def __init__(self, name: str, dims: Sequence[int]) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.scope = ""
        self.x = self.tensor("x", dims, Role.INPUT)

    def tensor(self, name: str, dims: Sequence[int], role: Role) -> str:
        self.tensors[name] = Tensor(name, tuple(dims), "float32", role)
        return name

    def weight(self, name: str, dims: Sequence[int]) -> str:
        return self.tensor(name, dims, Role.PARAMETER)

    def dims(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].dims

    def op(
        self, kind: str, inputs: Sequence[str], dims: Sequence[int], **attributes: AttributeValue
    ) -> str:
        result = self.tensor(f"t{len(self.ops)}", dims, Role.ACTIVATION)
        name = f"{kind}_{len(self.ops)}"
        self.ops.append(Op(name, kind, tuple(inputs), (result,), attributes, self.scope))
        return result

    def inside(self, scope: str, make: Callable[[], str]) -> str:
        """What `make` adds, in a cell of the present one."""
        outer = self.scope
        self.scope = f"{outer}/{scope}" if outer else scope
        result = make()
        self.scope = outer
        return result

    def build(self, output: str) -> OpGraph:
        graph = OpGraph(self.name, self.tensors, tuple(self.ops), (self.x,), (output,))
        graph.validate()
        return graph


def mlp(layers: int = 3) -> OpGraph:
    """Products with an activation behind each, 1024 wide outside and 4096 inside."""
    graph = _Graph("mlp", (256, WIDTH))
    x = graph.x
    for layer in range(layers):
        size = WIDTH if layer == layers - 1 else HIDDEN
        x = _linear(graph, f"ls-CellList/{layer}", x, f"fc{layer}", size, bias=False)
        x = graph.op("Relu", (x,), graph.dims(x))
    return graph.build(x)


def transformer(layers: int) -> OpGraph:
    """Blocks of attention and a network of two products, on rows without a batch dimension."""
    graph = _Graph(f"transformer{layers}", (BATCH * ROWS, WIDTH))
    x = graph.x
    for layer in range(layers):
        graph.scope = f"bl-CellList/{layer}-Block"
        x = _attention(graph, x, f"l{layer}")
        x = _feed_forward(graph, x, f"l{layer}")
    return graph.build(x)


def resnet50(layers: int = 0) -> OpGraph:
    """ResNet-50 for images of 224 x 224; `layers` is not used."""
    del layers
    graph = _Graph("resnet50", (IMAGES, 3, 224, 224))
    x = _convolved(graph, graph.x, ("c", "n"), 64, (7, 2))
    x = graph.op("Relu", (x,), graph.dims(x))
    window: dict[str, AttributeValue] = {"kernel_shape": (3, 3), "strides": (2, 2)}
    x = graph.op("MaxPool", (x,), (IMAGES, 64, 56, 56), pads=(0, 0, 1, 1), **window)
    block = 0
    for stage, (count, channels) in enumerate(STAGES):
        for index in range(count):
            graph.scope = f"bl-CellList/{block}-Bottleneck"
            x = _bottleneck(graph, x, channels, 2 if stage and not index else 1)
            block += 1
    graph.scope = ""
    x = graph.op("ReduceMean", (x,), (IMAGES, 2048, 1, 1), axes=(2, 3), keepdims=1)
    x = graph.op("Reshape", (x,), (IMAGES, 2048))
    return graph.build(_linear(graph, "fc", x, "fc", CLASSES))


GRAPHS: MappingProxyType[str, Callable[[int], OpGraph]] = MappingProxyType(
    {"mlp": mlp, "tf": transformer, "resnet50": resnet50}
)
"""By the names that `mindspore_nets.build` has for them; the number is that of the layers."""


def _linear(graph: _Graph, cell: str, x: str, name: str, size: int, *, bias: bool = True) -> str:
    def make() -> str:
        rows, inner = graph.dims(x)
        product = graph.op("MatMul", (x, graph.weight(f"{name}.w", (inner, size))), (rows, size))
        if not bias:
            return product
        return graph.op("Add", (product, graph.weight(f"{name}.b", (size,))), (rows, size))

    return graph.inside(f"{cell}-Linear", make)


def _norm(graph: _Graph, x: str, name: str, number: int) -> str:
    weights = [graph.weight(f"{name}.{kind}{number}", (WIDTH,)) for kind in "gb"]
    return graph.op("LayerNormalization", (x, *weights), graph.dims(x), axis=1)


def _attention(graph: _Graph, x: str, name: str) -> str:
    h, split = _norm(graph, x, name, 1), (BATCH, ROWS, HEADS, WIDTH // HEADS)
    turned = (BATCH, HEADS, ROWS, WIDTH // HEADS)
    parts: list[str] = []
    for part in "qkv":
        y = graph.op("Reshape", (_linear(graph, part, h, f"{name}.{part}", WIDTH),), split)
        parts.append(graph.op("Transpose", (y,), turned, perm=(0, 2, 1, 3)))
    q, k, v = parts
    square = (BATCH, HEADS, ROWS, ROWS)
    y = graph.op("MatMul", (q, k), square, trans_b=1)
    y = graph.op("Mul", (y, graph.tensor(f"{name}.scale", (), Role.CONSTANT)), square)
    y = graph.op("Softmax", (y,), square, axis=3)
    y = graph.op("Transpose", (graph.op("MatMul", (y, v), turned),), split, perm=(0, 2, 1, 3))
    y = graph.op("Reshape", (y,), (BATCH * ROWS, WIDTH))
    return graph.op("Add", (x, _linear(graph, "o", y, f"{name}.o", WIDTH)), graph.dims(x))


def _feed_forward(graph: _Graph, x: str, name: str) -> str:
    y = _linear(graph, "f1", _norm(graph, x, name, 2), f"{name}.f1", HIDDEN)
    y = graph.op("Gelu", (y,), graph.dims(y))
    return graph.op("Add", (x, _linear(graph, "f2", y, f"{name}.f2", WIDTH)), graph.dims(x))


def _bottleneck(graph: _Graph, x: str, channels: int, stride: int) -> str:
    first = x
    for cell, (size, window) in enumerate(
        ((channels, (1, 1)), (channels, (3, stride)), (4 * channels, (1, 1))), start=1
    ):
        if cell > 1:
            x = graph.op("Relu", (x,), graph.dims(x))
        x = _convolved(graph, x, (f"c{cell}", f"n{cell}"), size, window)
    if graph.dims(first) != graph.dims(x):
        first = _convolved(graph, first, ("cd", "nd"), 4 * channels, (1, stride))
    y = graph.op("Add", (first, x), graph.dims(x))
    return graph.op("Relu", (y,), graph.dims(y))


def _convolved(
    graph: _Graph, x: str, cells: tuple[str, str], channels: int, window: tuple[int, int]
) -> str:
    """A convolution that keeps the positions, up to its stride, and its normalisation."""
    (size, stride), (images, inner, rows, _) = window, graph.dims(x)
    block = graph.scope.removeprefix("bl-CellList/").removesuffix("-Bottleneck")
    own = f"bl.{block}.{cells[0]}" if block else cells[0]
    after = rows // stride
    pad = max((after - 1) * stride + size - rows, 0)
    pads = (pad // 2, pad // 2, pad - pad // 2, pad - pad // 2)
    shape: dict[str, AttributeValue] = {"kernel_shape": (size, size), "strides": (stride, stride)}
    result = (images, channels, after, after)

    def conv() -> str:
        weight = graph.weight(f"{own}.w", (channels, inner, size, size))
        return graph.op("Conv", (x, weight), result, pads=pads, **shape)

    def norm() -> str:
        learnt = [graph.weight(f"{own}.{part}", (channels,)) for part in ("gamma", "beta")]
        kept = [graph.tensor(f"{own}.{part}", (channels,), Role.BUFFER) for part in ("mean", "var")]
        return graph.op("BatchNormalization", (y, *learnt, *kept), result)

    y = graph.inside(f"{cells[0]}-Conv2d", conv)
    return graph.inside(f"{cells[1]}-BatchNorm2d", norm)
