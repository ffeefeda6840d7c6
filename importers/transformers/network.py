"""Layers, stacks of them, and the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from importers.transformers.attention import Sight, attention
from importers.transformers.entry import entered
from importers.transformers.experts import mixture
from importers.transformers.feed_forward import activated, feed_forward
from importers.transformers.fillings import Array
from importers.transformers.mixers import mixed
from importers.transformers.norms import normalised
from importers.transformers.positions import distance_bias
from importers.transformers.records import Head, Names, Network, Norm, Stack
from importers.transformers.writer import Value, Writer
from ir.graph import OpGraph

MOST_NUMBERS = 2**26
"""Elements of a constant whose numbers are made."""


def build_network(network: Network, batch: int, rows: tuple[int, ...]) -> OpGraph:
    """The forward pass of a network.

    Args:
        network: its sizes.
        batch: samples of one pass.
        rows: of every stack, such as the length of the sequence.
    """
    writer, output = _written(network, batch, rows)
    graph = writer.graph(network.name, [output], network.notes)
    graph.validate()
    return graph


def constant_numbers(
    network: Network, batch: int, rows: tuple[int, ...], names: Iterable[str]
) -> dict[str, Array]:
    """Arrays of those tensors that are constants of the network, and not too large."""
    writer, _ = _written(network, batch, rows)
    found = {name: writer.numbers(name, MOST_NUMBERS) for name in names}
    return {name: array for name, array in found.items() if array is not None}


def _written(network: Network, batch: int, rows: tuple[int, ...]) -> tuple[Writer, Value]:
    """The operators of a network, and what it answers."""
    writer = Writer(network.dtype)
    made: Value | None = None
    for stack, length in zip(network.stacks, rows, strict=True):
        made = _Layers(writer, network, stack, batch, length).run(made)
    if made is None:
        raise ValueError("a network has at least one stack")
    last = network.stacks[-1]
    return writer, answered(writer, made, network.head, last.norm, last.names)


class _Layers:
    """The layers of one stack."""

    def __init__(
        self, writer: Writer, network: Network, stack: Stack, batch: int, rows: int
    ) -> None:
        self.writer, self.stack, self.names = writer, stack, stack.names
        self.batch, self.rows, self.width = batch, rows, network.width

    def run(self, memory: Value | None) -> Value:
        """The rows behind the last layer; `memory` are those of the encoder."""
        stack, names, writer = self.stack, self.names, self.writer
        rows = entered(writer, stack.entry, stack.norm, names, self.width, self.batch, self.rows)
        sight = self._sight()
        for index in range(stack.layers):
            rows = self._layer(index, rows, sight, memory)
        return (
            normalised(writer, rows, stack.norm, names["final_norm"]) if stack.final_norm else rows
        )

    def _sight(self) -> Sight:
        stack, writer, rows = self.stack, self.writer, self.rows
        if stack.attention.relative_buckets:
            module = f"{self.names['layers']}.0.{self.names['distances']}"
            sizes = stack.attention
            bias = distance_bias(
                writer, module, sizes.relative_buckets, sizes.heads, rows, causal=stack.causal
            )
            return Sight(stack.causal, bias=bias)
        return Sight(stack.causal, bias=self._padding() if stack.entry.padded else None)

    def _padding(self) -> Value:
        """What hides the tokens that do not count, `[batch, 1, rows, rows]`."""
        writer, batch, rows = self.writer, self.batch, self.rows
        given = writer.input("attention_mask", (batch, rows), "int64")
        told = writer.cast(given, "bool")
        told = writer.unsqueeze(writer.unsqueeze(told, 1), 1)
        every = writer.constant("attention/rows", 1.0, (1, 1, rows, 1), "bool")
        kept = writer.pointwise("And", every, told)
        zero = writer.constant("attention/zero", 0.0)
        low = writer.constant("attention/lowest", -1e9)
        return writer.select(kept, zero, low)

    def _layer(self, index: int, rows: Value, sight: Sight, memory: Value | None) -> Value:
        layer = f"{self.names['layers']}.{index}"
        usual = ("attention", "mlp") if memory is None else ("attention", "cross", "mlp")
        blocks = self.stack.blocks[index] if self.stack.blocks else usual
        for kind in blocks:
            part, body = self._body(kind, layer, index, sight, memory)
            rows = self._block(layer, rows, part, body)
        return rows

    def _body(
        self, kind: str, layer: str, index: int, sight: Sight, memory: Value | None
    ) -> tuple[str, Callable[[Value], Value]]:
        """What its normalisation is called after, and what a block makes of the rows."""
        if kind == "attention":
            return kind, lambda rows: self._attended(layer, rows, sight)
        if kind == "cross":
            return kind, lambda rows: self._recalled(layer, rows, memory)
        if kind == "mixer":
            return "attention", lambda rows: self._mixed(layer, rows)
        if kind == "both":
            return "attention", lambda rows: self.writer.add(
                self._attended(layer, rows, sight), self._mixed(layer, rows)
            )
        return "mlp", lambda rows: self._transformed(kind, layer, index, rows)

    def _attended(self, layer: str, rows: Value, sight: Sight) -> Value:
        stack, module = self.stack, _join(layer, self.names["attention"])
        return attention(self.writer, rows, stack.attention, stack.norm, self.names, module, sight)

    def _recalled(self, layer: str, rows: Value, memory: Value | None) -> Value:
        """Attention to the rows of the encoder."""
        stack, module = self.stack, _join(layer, self.names["cross"])
        sizes = replace(stack.attention, relative_buckets=0)
        seen = Sight(causal=False)
        return attention(self.writer, rows, sizes, stack.norm, self.names, module, seen, memory)

    def _mixed(self, layer: str, rows: Value) -> Value:
        sizes = self.stack.mixer
        if sizes is None:
            raise ValueError(f"{layer} mixes rows, and its stack does not say how")
        return mixed(self.writer, rows, sizes, self.names, _join(layer, self.names["mixer"]))

    def _transformed(self, kind: str, layer: str, index: int, rows: Value) -> Value:
        stack, module = self.stack, _join(layer, self.names["mlp"])
        experts = stack.experts
        if (
            experts is not None
            and kind != "dense"
            and (kind == "routed" or experts.stands_in(index))
        ):
            return mixture(self.writer, rows, experts, self.names, module)
        return feed_forward(self.writer, rows, stack.feed_forward, self.names, module)

    def _block(self, layer: str, rows: Value, part: str, body: Callable[[Value], Value]) -> Value:
        """The rows and what a block makes of them, normalised where the stack says."""
        writer, place = self.writer, self.stack.norms
        module = f"{layer}.{self.names[f'{part}_norm']}"
        given = rows
        if place != "after":
            given = normalised(writer, rows, self.stack.norm, module)
        made = body(given)
        if place == "both":
            after = f"{layer}.{self.names[f'{part}_norm_after']}"
            made = normalised(writer, made, self.stack.norm, after)
        with writer.module(layer):
            total = writer.add(rows, made)
        return normalised(writer, total, self.stack.norm, module) if place == "after" else total


def _join(*parts: str) -> str:
    return ".".join(p for p in parts if p)


_CAP = 30.0
"""Of the scores, where they have one; planning does not see its size."""


def answered(writer: Writer, rows: Value, head: Head, norm: Norm, names: Names) -> Value:
    """Scores of the vocabulary for every row, of the classes for every sample, or the rows."""
    if head.kind == "none":
        return rows
    if head.kind == "classes":
        return _classes(writer, rows, head, names["classes"])
    width = writer.dims(rows)[-1]
    if head.transform:
        rows = writer.linear(rows, names["transform"], width, bias=True)
        rows = activated(writer, rows, head.transform, names["transform_activation"])
        rows = normalised(writer, rows, norm, names["transform_norm"])
    if head.scaled:
        rows = writer.scaled(rows, "head/scale", width**-0.5)
    module = names["head"]
    with writer.module(module):
        table = names["embedding"] if head.tied else module
        weight = writer.parameter(f"{table}.weight", head.size, width)
        made = writer.matmul(rows, writer.transpose(weight, 1, 0))
        if head.bias:
            made = writer.biased(made, module, head.size)
        return _capped(writer, made) if head.soft_cap else made


def _capped(writer: Writer, scores: Value) -> Value:
    cap = writer.constant("head/cap", _CAP)
    return writer.scaled(writer.tanh(writer.div(scores, cap)), "head/cap", _CAP)


def _classes(writer: Writer, rows: Value, head: Head, module: str) -> Value:
    """From the first row alone, where the class token stands."""
    first = writer.constant("head/first", 0, (), "int64")
    picked = writer.gather(rows, first, 1)
    with writer.module(module):
        weight = writer.parameter(f"{module}.weight", head.size, writer.dims(rows)[-1])
        return writer.biased(writer.matmul(picked, weight, trans_b=1), module, head.size)
