"""Blocks that mix rows without softmax: state spaces, delta nets, linear attention with decay.

Published implementations store the first product of such a block as one matrix; tensor parallel
ones split each of its parts by heads. Here every part is a product of its own, named after both.
Sources: Mamba, arXiv 2312.00752; Mamba-2, arXiv 2405.21060; gated delta net, arXiv 2412.06464; Kimi
Linear, arXiv 2510.26692; lightning attention, arXiv 2401.04658.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from importers.transformers.feed_forward import ACTIVATIONS, activated
from importers.transformers.fillings import slopes
from importers.transformers.norms import normalised
from importers.transformers.records import MixerSizes, Names, Norm
from importers.transformers.writer import Value, Writer
from ir.graph import AttributeValue
from ir.ops.linear_attention import CHANNELS_LAST, KEY_HEADS


@dataclass(frozen=True, slots=True)
class _Block:
    """One block while it is written."""

    writer: Writer
    rows: Value
    """`[batch, rows, width]`."""
    sizes: MixerSizes
    path: Names
    """Full paths of its modules."""

    @property
    def place(self) -> tuple[int, int]:
        """Batch and rows."""
        batch, rows, _ = self.writer.dims(self.rows)
        return batch, rows

    @property
    def inner(self) -> int:
        return self.sizes.heads * self.sizes.value_size

    @property
    def keys(self) -> int:
        return self.sizes.key_heads * self.sizes.key_size

    def product(self, part: str, columns: int, *, bias: bool = False) -> Value:
        """A product of the rows."""
        return self.writer.linear(self.rows, self.path[part], columns, bias=bias)

    def convolved(self, value: Value, part: str, *, bias: bool) -> Value:
        """Each channel over the last few rows, activated; the value itself without a kernel."""
        if not self.sizes.convolution:
            return value
        writer, module = self.writer, self.path[part]
        channels = writer.dims(value)[-1]
        with writer.module(module):
            kernel = writer.parameter(f"{module}.weight", channels, 1, self.sizes.convolution)
            given = [value, kernel]
            if bias:
                given.append(writer.parameter(f"{module}.bias", channels))
            attributes: dict[str, AttributeValue] = {"activation": "silu", CHANNELS_LAST: 1}
            return writer.op("CausalConvWithState", given, writer.dims(value), "", **attributes)

    def by_head(self, value: Value, heads: int) -> Value:
        """`[batch, rows, heads, width]`."""
        width = self.writer.dims(value)[-1] // heads
        return self.writer.reshape(value, *self.place, heads, width)

    def flat(self, value: Value) -> Value:
        """`[batch, rows, heads * width]`."""
        *_, heads, width = self.writer.dims(value)
        return self.writer.reshape(value, *self.place, heads * width)

    def unit(self, value: Value, heads: int) -> Value:
        """Every head with a length of one."""
        apart = self.by_head(value, heads)
        dims = self.writer.dims(apart)
        return self.flat(self.writer.op("LpNormalization", [apart], dims, axis=3, p=2))

    def weight(self, part: str, *dims: int) -> Value:
        """A parameter of the block itself, in single precision."""
        return self.writer.cast(self.writer.parameter(self.path[part], *dims), "float32")

    def step(self, value: Value, part: str) -> Value:
        """Steps of time, above zero, with a bias for each; in single precision."""
        writer = self.writer
        wide = writer.cast(value, "float32")
        moved = writer.add(wide, self.weight(part, writer.dims(value)[-1]))
        return writer.pointwise("Softplus", moved)

    def falling(self, *dims: int) -> Value:
        """Rates of decay below zero, from their logarithms."""
        return self.writer.neg(self.writer.pointwise("Exp", self.weight("decay", *dims)))

    def attended(
        self, query: Value, key: Value, value: Value, *more: Value, **attributes: AttributeValue
    ) -> Value:
        """Linear attention; `more` are the decay and what corrects the state."""
        sizes, heads = self.sizes, self.sizes.heads
        named: dict[str, AttributeValue] = {"q_num_heads": sizes.key_heads, "kv_num_heads": heads}
        named |= attributes
        if sizes.key_heads < heads:
            named[KEY_HEADS] = sizes.key_heads
        if sizes.chunk:
            named["chunk_size"] = sizes.chunk
        operands = [query, key, value, Value(""), *more]
        dims = self.writer.dims(value)
        dtype = self.writer.dtype_of(value)
        return self.writer.op("LinearAttention", operands, dims, dtype, **named)

    def narrow(self, value: Value) -> Value:
        return self.writer.cast(value, self.writer.dtype)

    def gated(self, value: Value, gate: Value, *, silu: bool) -> Value:
        """A value times its gate."""
        writer = self.writer
        if silu:
            return writer.mul(value, ACTIVATIONS["silu"](writer, gate))
        return writer.mul(value, writer.sigmoid(gate))

    def out(self, value: Value) -> Value:
        width = self.writer.dims(self.rows)[-1]
        return self.writer.linear(value, self.path["mixer_output"], width)


def mixed(writer: Writer, rows: Value, sizes: MixerSizes, names: Names, module: str) -> Value:
    """The rows after a block that mixes them without softmax.

    Args:
        writer: receives the operators.
        rows: `[batch, rows, width]`.
        sizes: heads and their widths.
        names: of the parts below the module.
        module: path of the block.
    """
    path = {part: f"{module}.{name}" for part, name in names.items()}
    with writer.module(module):
        return _KINDS[sizes.kind](_Block(writer, rows, sizes, path))


def _parts(block: _Block, *, bias: bool) -> tuple[Value, Value, Value]:
    """Queries, keys and values, convolved."""
    columns = {"query": block.keys, "key": block.keys, "value": block.inner}
    made = [
        block.convolved(
            block.product(f"mixer_{part}", columns[part]), f"mixer_{part}_line", bias=bias
        )
        for part in ("query", "key", "value")
    ]
    return made[0], made[1], made[2]


def _state_space(block: _Block) -> Value:
    """Mamba-2: what is read, what is written and values stand for queries, keys and values."""
    writer, sizes = block.writer, block.sizes
    gate = block.product("mixer_gate", block.inner)
    read, write, value = _parts(block, bias=True)
    step = block.step(block.product("mixer_step", sizes.heads), "step")
    decay = writer.mul(step, block.falling(sizes.heads))
    apart = block.by_head(value, sizes.heads)
    scale = writer.unsqueeze(block.narrow(step), 3)
    timed = block.flat(writer.mul(apart, scale))
    made = block.attended(read, write, timed, decay, update_rule="gated", scale=1.0)
    skip = writer.unsqueeze(writer.parameter(block.path["skip"], sizes.heads), 1)
    passed = block.flat(writer.mul(apart, skip))
    total = block.gated(writer.add(made, passed), gate, silu=True)
    groups = sizes.key_heads
    normal = _normal_in_groups(block, total, groups)
    return block.out(normal)


def _normal_in_groups(block: _Block, value: Value, groups: int) -> Value:
    """Every group of channels normalised by itself, with a weight for each channel."""
    writer, module = block.writer, block.path["mixer_norm"]
    with writer.module(module):
        apart = block.by_head(value, groups)
        width = writer.dims(apart)[-1]
        one = writer.constant(f"norm/ones_{width}", 1.0, (width,))
        normal = writer.rms_norm(apart, one, axis=3)
        weight = writer.parameter(f"{module}.weight", groups * width)
        return writer.mul(block.flat(normal), weight)


def _selective(block: _Block) -> Value:
    """Mamba: every channel has a state of its own."""
    writer, sizes = block.writer, block.sizes
    gate = block.product("mixer_gate", block.inner)
    value = block.convolved(
        block.product("mixer_value", block.inner), "mixer_value_line", bias=True
    )
    ranks = (sizes.rank, sizes.key_size, sizes.key_size)
    low = writer.linear(value, block.path["mixer_small"], sum(ranks))
    parts = writer.split(low, 2, ranks)
    if "step_norm" in block.path:
        named = zip(parts, ("step_norm", "write_norm", "read_norm"), strict=True)
        parts = [normalised(writer, part, Norm(), block.path[name]) for part, name in named]
    wide = writer.linear(parts[0], block.path["mixer_step"], block.inner)
    step = block.step(wide, "step")
    made = writer.op(
        "SelectiveScan",
        [value, step, block.falling(block.inner, sizes.key_size), parts[1], parts[2]],
        writer.dims(value),
    )
    skip = writer.parameter(block.path["skip"], block.inner)
    total = writer.add(made, writer.mul(value, skip))
    return block.out(block.gated(total, gate, silu=True))


def _gated_delta(block: _Block) -> Value:
    """The delta rule with a decay for each head."""
    writer, sizes = block.writer, block.sizes
    gate = block.product("mixer_gate", block.inner)
    query, key, value = _parts(block, bias=False)
    step = block.step(block.product("mixer_step", sizes.heads), "step")
    decay = writer.mul(step, block.falling(sizes.heads))
    return _corrected(block, query, key, value, decay, gate, silu=True)


def _kimi_delta(block: _Block) -> Value:
    """The delta rule with a decay for each channel of a key; decays and gates in two steps."""
    writer, sizes = block.writer, block.sizes
    query, key, value = _parts(block, bias=False)
    low = block.product("mixer_step_down", sizes.rank)
    step = block.step(writer.linear(low, block.path["mixer_step"], block.keys), "step")
    rate = writer.unsqueeze(block.falling(sizes.heads), 1)
    decay = block.flat(writer.mul(block.by_head(step, sizes.key_heads), rate))
    low = block.product("mixer_gate_down", sizes.rank)
    gate = writer.linear(low, block.path["mixer_gate"], block.inner)
    return _corrected(block, query, key, value, decay, gate, silu=False)


def _corrected(
    block: _Block, query: Value, key: Value, value: Value, decay: Value, gate: Value, *, silu: bool
) -> Value:
    """The delta rule, then every head normalised and gated."""
    writer, sizes = block.writer, block.sizes
    strength = block.product("mixer_strength", sizes.heads)
    rate = writer.sigmoid(strength)
    query, key = block.unit(query, sizes.key_heads), block.unit(key, sizes.key_heads)
    made = block.attended(query, key, value, decay, rate, update_rule="gated_delta")
    normal = normalised(writer, block.by_head(made, sizes.heads), Norm(), block.path["mixer_norm"])
    return block.out(block.gated(block.flat(normal), gate, silu=silu))


def _lightning(block: _Block) -> Value:
    """A fixed decay for each head; queries, keys and values are activated."""
    writer, sizes = block.writer, block.sizes
    columns = {"query": block.keys, "key": block.keys, "value": block.inner}
    query, key, value = (
        activated(writer, block.product(f"mixer_{part}", width), "silu", block.path["activation"])
        for part, width in columns.items()
    )
    decay = writer.constant(f"decay/{sizes.heads}", slopes, (1, 1, sizes.heads), "float32")
    made = block.attended(query, key, value, decay, update_rule="gated", scale=1.0)
    normal = normalised(writer, made, Norm(), block.path["mixer_norm"])
    gate = block.product("mixer_gate", block.inner)
    return block.out(block.gated(normal, gate, silu=False))


_KINDS: Mapping[str, Callable[[_Block], Value]] = MappingProxyType(
    {
        "mamba": _selective,
        "mamba2": _state_space,
        "gated-delta": _gated_delta,
        "kimi-delta": _kimi_delta,
        "lightning": _lightning,
    }
)
"""By the kind of a mixer."""
