"""Small graphs that tests plan."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor


class GraphBuilder:
    """Collects operators in order; `build` makes the graph."""

    def __init__(self, name: str, dtype: str = "float32") -> None:
        self.name, self.dtype = name, dtype
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []

    def tensor(self, name: str, dims: Sequence[int], role: Role, dtype: str | None = None) -> str:
        self.tensors[name] = Tensor(name, tuple(dims), dtype or self.dtype, role)
        return name

    def input(self, name: str, dims: Sequence[int], dtype: str | None = None) -> str:
        self.inputs.append(name)
        return self.tensor(name, dims, Role.INPUT, dtype)

    def weight(self, name: str, dims: Sequence[int]) -> str:
        return self.tensor(name, dims, Role.PARAMETER)

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        dims: Sequence[int],
        name: str | None = None,
        **attributes: AttributeValue,
    ) -> str:
        result = name or f"{kind.lower()}_{len(self.ops)}"
        self.tensor(result, dims, Role.ACTIVATION)
        self.ops.append(Op(f"op_{result}", kind, tuple(inputs), (result,), attributes))
        return result

    def build(self, *outputs: str) -> OpGraph:
        graph = OpGraph(
            self.name, dict(self.tensors), tuple(self.ops), tuple(self.inputs), tuple(outputs)
        )
        graph.validate()
        return graph


def mlp(layers: int, batch: int = 64, width: int = 256, hidden: int = 1024) -> OpGraph:
    """`layers` products with an activation between them."""
    build = GraphBuilder(f"mlp{layers}")
    x, size = build.input("x", (batch, width)), width
    for layer in range(layers):
        out = hidden if layer % 2 == 0 else width
        weight = build.weight(f"layers.{layer}.weight", (size, out))
        x = build.op("MatMul", (x, weight), (batch, out))
        if layer < layers - 1:
            x = build.op("Relu", (x,), (batch, out))
        size = out
    return build.build(x)


def attention_block(batch: int = 8, rows: int = 128, heads: int = 8, width: int = 64) -> OpGraph:
    """Query, key and value products, attention, output product and the residual addition."""
    build = GraphBuilder("attention")
    size = heads * width
    x = build.input("x", (batch, rows, size))
    start = build.op("MatMul", (x, build.weight("in.weight", (size, size))), (batch, rows, size))
    parts = []
    for name in ("q", "k", "v"):
        y = build.op(
            "MatMul", (start, build.weight(f"{name}.weight", (size, size))), (batch, rows, size)
        )
        y = build.op("Reshape", (y,), (batch, rows, heads, width))
        parts.append(build.op("Transpose", (y,), (batch, heads, rows, width), perm=(0, 2, 1, 3)))
    y = build.op("Attention", parts, (batch, heads, rows, width))
    y = build.op("Transpose", (y,), (batch, rows, heads, width), perm=(0, 2, 1, 3))
    y = build.op("Reshape", (y,), (batch, rows, size))
    y = build.op("MatMul", (y, build.weight("o.weight", (size, size))), (batch, rows, size))
    return build.build(build.op("Add", (start, y), (batch, rows, size)))
