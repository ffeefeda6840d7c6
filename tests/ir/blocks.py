"""Decomposed transformer blocks in the forms that exporters write."""

from __future__ import annotations

from dataclasses import dataclass

from ir.graph import OpGraph, Role
from tests.builders import GraphBuilder


@dataclass(frozen=True, slots=True)
class Form:
    """How an exporter writes attention."""

    batch: int = 2
    rows: int = 4
    heads: int = 4
    key_heads: int = 4
    width: int = 8
    scale: str = "scores div"
    """`scores mul`, `scores div`, `operands` (both before the product) or `none`."""
    mask: str = "none"
    """`none`, `add` (one for all), `batch` (one for each sequence), `where` or `bias` (computed
    from parameters, as large as the scores)."""
    guard: bool = False
    """Rows that are masked altogether are set to zero: IsNaN, Where."""
    cast: bool = False
    """Softmax in another precision."""
    dropout: bool = False
    keys_outside: bool = False
    """The scores are an output of the graph."""


class _Block:
    def __init__(self, form: Form) -> None:
        self.form, self.build = form, GraphBuilder("block")
        self.size = form.heads * form.width

    def constant(self, name: str, *dims: int, dtype: str = "float32") -> str:
        return self.build.tensor(name, dims, Role.CONSTANT, dtype)

    def heads_of(self, x: str, name: str, heads: int) -> str:
        """Product, reshape and transpose to batch, heads, rows, width."""
        f, op = self.form, self.build.op
        weight = self.build.weight(f"{name}.weight", (self.size, heads * f.width))
        y = op("MatMul", (x, weight), (f.batch, f.rows, heads * f.width))
        y = op("Reshape", (y,), (f.batch, f.rows, heads, f.width))
        return op("Transpose", (y,), (f.batch, heads, f.rows, f.width), perm=(0, 2, 1, 3))

    def repeated(self, y: str) -> str:
        """Key heads written out for every query head, as exporters do for grouped queries."""
        f, op = self.form, self.build.op
        if f.heads == f.key_heads:
            return y
        repeats = f.heads // f.key_heads
        y = op("Unsqueeze", (y,), (f.batch, f.key_heads, 1, f.rows, f.width), axes=(2,))
        y = op("Expand", (y,), (f.batch, f.key_heads, repeats, f.rows, f.width))
        return op("Reshape", (y,), (f.batch, f.heads, f.rows, f.width))

    def scaled(self, y: str, dims: tuple[int, ...], kind: str) -> str:
        return self.build.op(kind, (y, self.constant(f"root_{y}")), dims)

    def attention(self, x: str) -> str:
        f, op = self.form, self.build.op
        wide, scores_dims = (
            (f.batch, f.heads, f.rows, f.width),
            (f.batch, f.heads, f.rows, f.rows),
        )
        q, k, v = (
            self.heads_of(x, n, h)
            for n, h in (("q", f.heads), ("k", f.key_heads), ("v", f.key_heads))
        )
        k, v = self.repeated(k), self.repeated(v)
        keys = (f.batch, f.heads, f.width, f.rows)
        k = op("Transpose", (k,), keys, perm=(0, 1, 3, 2))
        if f.scale == "operands":
            q, k = self.scaled(q, wide, "Mul"), self.scaled(k, keys, "Mul")
        s = op("MatMul", (q, k), scores_dims, name="scores")
        if f.scale.startswith("scores"):
            s = self.scaled(s, scores_dims, "Mul" if f.scale.endswith("mul") else "Div")
        s = self.masked(s, scores_dims)
        s = op("Cast", (s,), scores_dims) if f.cast else s
        p = op("Softmax", (s,), scores_dims, axis=3)
        p = op("Cast", (p,), scores_dims) if f.cast else p
        if f.guard:
            lost = op("IsNaN", (p,), scores_dims)
            p = op("Where", (lost, self.constant("zero"), p), scores_dims)
        p = op("Dropout", (p,), scores_dims) if f.dropout else p
        y = op("MatMul", (p, v), wide)
        y = op("Transpose", (y,), (f.batch, f.rows, f.heads, f.width), perm=(0, 2, 1, 3))
        return op("Reshape", (y,), (f.batch, f.rows, self.size))

    def masked(self, scores: str, dims: tuple[int, ...]) -> str:
        f, op = self.form, self.build.op
        if f.mask == "add":
            return op("Add", (scores, self.constant("mask", 1, 1, f.rows, f.rows)), dims)
        if f.mask == "batch":
            mask = self.build.input("mask", (f.batch, f.rows))
            mask = op("Unsqueeze", (mask,), (f.batch, 1, 1, f.rows), axes=(1, 2))
            return op("Add", (scores, mask), dims)
        if f.mask == "bias":
            table = self.build.weight("table", (f.rows, f.rows, f.heads))
            bias = op("Transpose", (table,), (f.heads, f.rows, f.rows), perm=(2, 0, 1))
            wide = (1, f.heads, f.rows, f.rows)
            return op("Add", (op("Unsqueeze", (bias,), wide, axes=(0,)), scores), dims)
        if f.mask == "where":
            seen = self.constant("seen", 1, 1, f.rows, f.rows, dtype="bool")
            return op("Where", (seen, scores, self.constant("lowest")), dims)
        return scores

    def whole(self) -> OpGraph:
        """Attention with a residual, then a gated product with one."""
        f, op = self.form, self.build.op
        dims = (f.batch, f.rows, self.size)
        x = self.build.input("x", dims)
        y = op("MatMul", (self.attention(x), self.build.weight("o.weight", (self.size,) * 2)), dims)
        x = op("Add", (x, y), dims)
        hidden = (f.batch, f.rows, 2 * self.size)
        up, gate = (
            op("MatMul", (x, self.build.weight(f"{n}.weight", (self.size, 2 * self.size))), hidden)
            for n in ("up", "gate")
        )
        gate = op("Mul", (gate, op("Sigmoid", (gate,), hidden)), hidden)
        y = op("Mul", (gate, up), hidden)
        y = op("MatMul", (y, self.build.weight("down.weight", (2 * self.size, self.size))), dims)
        y = op("Add", (x, y), dims, name="y")
        return self.build.build(y, *(["scores"] if f.keys_outside else []))


def block(form: Form) -> OpGraph:
    """A transformer block."""
    return _Block(form).whole()
