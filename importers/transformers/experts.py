"""Mixtures of experts in the form that exporters write: a router, and for every slot of a token the
weights of its expert looked up. `ir.normalise` makes grouped products of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from importers.transformers.feed_forward import activated, feed_forward
from importers.transformers.records import Experts, FeedForward, Names
from importers.transformers.writer import Value, Writer


@dataclass(frozen=True, slots=True)
class _Choice:
    """The experts of every token, `[tokens, per_token]`."""

    experts: Value
    weights: Value


def mixture(writer: Writer, rows: Value, sizes: Experts, names: Names, module: str) -> Value:
    """`[batch, rows, width]` through the experts of every token, and the block that all pass."""
    path = {part: f"{module}.{name}" for part, name in names.items()}
    batch, length, width = writer.dims(rows)
    with writer.module(module):
        tokens = writer.reshape(rows, batch * length, width)
        choice = _chosen(writer, tokens, sizes, path["router"])
        if sizes.latent:
            tokens = writer.linear(tokens, path["latent_down"], sizes.latent)
        made = _through_experts(writer, tokens, choice, sizes, path)
        if sizes.latent:
            made = writer.linear(made, path["latent_up"], width)
        made = writer.reshape(made, batch, length, width)
        if not sizes.shared_width:
            return made
        shared = _shared(writer, rows, sizes, names, path)
        return writer.add(made, shared)


def _shared(writer: Writer, rows: Value, sizes: Experts, names: Names, path: Names) -> Value:
    block = FeedForward(sizes.shared_width, sizes.activation, sizes.gated)
    made = feed_forward(writer, rows, block, names, path["shared"])
    if not sizes.shared_gate:
        return made
    gate = writer.linear(rows, path["shared_gate"], 1)
    return writer.mul(writer.sigmoid(gate), made)


def _chosen(writer: Writer, tokens: Value, sizes: Experts, module: str) -> _Choice:
    """Scores of all experts, the best of them, and their weights in single precision."""
    with writer.module(module):
        scores = _scores(writer, tokens, sizes, module)
        count = writer.dims(tokens)[0]
        ranked = scores
        if sizes.correction:
            name = f"{module}.e_score_correction_bias"
            bias = writer.constant(name, 0.0, (sizes.count,), "float32")
            ranked = writer.add(scores, bias)
        if sizes.groups:
            ranked = _in_best_groups(writer, ranked, sizes, module)
        best = (count, sizes.per_token)
        results = [(best, "float32"), (best, "int64")]
        found, experts = writer.several("TopK", [ranked], results, axis=1, largest=1)
        weights = found
        if sizes.correction:
            weights = writer.gather_elements(scores, experts, 1)
        if sizes.normalised:
            weights = writer.div(weights, writer.reduce_sum(weights, 1))
        return _Choice(
            experts, writer.scaled(weights, "router/scale", 1.0) if sizes.scaled else weights
        )


def _scores(writer: Writer, tokens: Value, sizes: Experts, module: str) -> Value:
    """`[tokens, experts]`, in single precision."""
    weight = writer.parameter(f"{module}.weight", sizes.count, writer.dims(tokens)[-1])
    if sizes.single:
        tokens, weight = writer.cast(tokens, "float32"), writer.cast(weight, "float32")
    logits = writer.cast(writer.matmul(tokens, weight, trans_b=1), "float32")
    if sizes.scores == "sigmoid":
        return writer.sigmoid(logits)
    return writer.softmax(logits, 1)


def _in_best_groups(writer: Writer, ranked: Value, sizes: Experts, module: str) -> Value:
    """Scores with those of all but the best groups put out of the running.

    Source: DeepSeek-V3, arXiv 2412.19437, section 2.1.2, node-limited routing.
    """
    tokens, count = writer.dims(ranked)
    members = count // sizes.groups
    apart = writer.reshape(ranked, tokens, sizes.groups, members)
    merit = _group_merit(writer, apart, sizes)
    kept = (tokens, sizes.best_groups)
    _, index = writer.several("TopK", [merit], [(kept, ""), (kept, "int64")], axis=1, largest=1)
    none = writer.constant(f"{module}/none", 0.0, (tokens, sizes.groups), "float32")
    ones = writer.constant(f"{module}/ones", 1.0, kept, "float32")
    marks = writer.scatter_elements(none, index, ones, 1, "none")
    wide = writer.expand(writer.unsqueeze(marks, 2), tokens, sizes.groups, members)
    flat = writer.cast(writer.reshape(wide, tokens, count), "bool")
    out = writer.logical_not(flat)
    return writer.select(out, writer.constant("router/out", 0.0, (), "float32"), ranked)


def _group_merit(writer: Writer, apart: Value, sizes: Experts) -> Value:
    """`[tokens, groups]` from `[tokens, groups, members]`: the best expert stands for its group, or
    the two best where a bias corrects the choice (DeepSeek-V3).
    """
    tokens, groups, members = writer.dims(apart)
    if not sizes.correction:
        return writer.reduce_max(apart, 2, keep=False)
    best = (tokens, groups, min(2, members))
    (found,) = writer.several("TopK", [apart], [(best, "float32")], axis=2, largest=1)
    return writer.reduce_sum(found, 2, keep=False)


def _through_experts(
    writer: Writer, tokens: Value, choice: _Choice, sizes: Experts, path: Names
) -> Value:
    """`[tokens, width]`: the weighted sum of what a token's experts make of it."""
    count, width = writer.dims(tokens)
    slots = count * sizes.per_token
    with writer.module(path["experts"]):
        wide = writer.expand(writer.unsqueeze(tokens, 1), count, sizes.per_token, width)
        sent = writer.reshape(wide, slots, width)
        index = writer.unsqueeze(writer.reshape(choice.experts, slots), 1)
        columns = sizes.width * (2 if sizes.gated else 1)
        inner = _looked_up(writer, sent, index, path["experts_up"], sizes.count, columns)
        if sizes.gated:
            gate, up = writer.split(inner, 1, (sizes.width, sizes.width))
            gate = activated(writer, gate, sizes.activation, path["experts_activation"])
            inner = writer.mul(gate, up)
        else:
            inner = activated(writer, inner, sizes.activation, path["experts_activation"])
        made = _looked_up(writer, inner, index, path["experts_down"], sizes.count, width)
        factor = writer.unsqueeze(writer.reshape(choice.weights, slots), 1)
        weighted = writer.mul(writer.cast(made, "float32"), factor)
        apart = writer.reshape(weighted, count, sizes.per_token, width)
        total = writer.reduce_sum(apart, 1, keep=False)
        return writer.cast(total, writer.dtype_of(tokens))


def _looked_up(
    writer: Writer, sent: Value, index: Value, name: str, experts: int, columns: int
) -> Value:
    """Every slot's row times the weight of its expert."""
    weight = writer.parameter(name, experts, columns, writer.dims(sent)[-1])
    picked = writer.gather_nd(weight, index, batch_dims=0)
    made = writer.matmul(picked, writer.unsqueeze(sent, 2))
    return writer.squeeze(made, 2)
