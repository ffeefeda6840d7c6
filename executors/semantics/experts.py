"""Tokens sorted by expert, products of experts, and back, differentiable."""

from __future__ import annotations

from executors.placement import Array
from ir.semantics.arrays import np
from ir.semantics.call import Call, NotRunError


def token_slots(index: Array, experts: int, capacity: int, first: int, held: int) -> Array:
    """Slot of every token among those of the experts that are held; one behind for the others.

    The tokens of one expert take its slots in their order.

    Args:
        index: expert of every token, from the front or from the end.
        experts: number of all experts.
        capacity: slots of each.
        first: the first expert that is held.
        held: how many are.

    Raises:
        NotRunError: an expert gets more tokens than it has slots: the load is not balanced.
    """
    expert = index.reshape(-1)
    expert = np.where(expert < 0, expert + experts, expert)
    if expert.size and not (expert.min() >= 0 and expert.max() < experts):
        raise NotRunError(f"a token goes to expert {expert.max()} of {experts}")
    chosen = expert[:, None] == np.arange(experts)
    counts = chosen.sum(axis=0)
    if counts.max(initial=0) > capacity:
        raise NotRunError(
            f"expert {counts.argmax()} gets {counts.max()} tokens for {capacity} slots: "
            "the load of the experts is not balanced"
        )
    place = np.cumsum(chosen, axis=0)[np.arange(len(expert)), expert] - 1
    mine = (expert >= first) & (expert < first + held)
    return np.where(mine, (expert - first) * capacity + place, held * capacity)


def dispatch(call: Call) -> list[Array]:
    """Slots without a token are zeros."""
    tokens = call[0]
    held, capacity, *rest = call.result_dims[0]
    experts = call.int("experts", held)
    slots = token_slots(call[1], experts, capacity, call.int("first_expert"), held)
    source = np.full(held * capacity + 1, len(slots))
    source[slots] = np.arange(len(slots))
    padded = np.concatenate([tokens, np.zeros((1, *tokens.shape[1:]), tokens.dtype)])
    return [np.reshape(padded[source[:-1]], (held, capacity, *rest))]


def combine(call: Call) -> list[Array]:
    """Tokens whose expert is held elsewhere are zeros."""
    data = call[0]
    held, capacity, *rest = data.shape
    experts = call.int("experts", held)
    slots = token_slots(call[1], experts, capacity, call.int("first_expert"), held)
    rows = np.reshape(data, (held * capacity, *rest))
    return [np.concatenate([rows, np.zeros((1, *rest), data.dtype)])[slots]]


def expert_matmul(call: Call) -> list[Array]:
    tokens, weight = call[0], call[1]
    if call.int("row"):
        return [np.einsum("ecxh,ehf->ecxf", tokens, weight)]
    return [np.einsum("efh,echx->ecfx", weight, tokens)]


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Whole numbers of few bits, the lowest bits of each byte first."""
    shifts = np.arange(0, 8, bits)
    parts = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)[..., :count].astype(np.int64)


def packed_expert_matmul(call: Call) -> list[Array]:
    tokens, packed, scale = call[0], call[1], call[2]
    bits, width = call.int("bits", 4), tokens.shape[2]
    weight = _unpacked(packed, bits, width)
    blocks = scale.shape[2] if scale.ndim == 3 else 1
    weight = weight.reshape(*weight.shape[:2], blocks, -1)
    zero: Array = np.array(1 << (bits - 1))
    if call.has(3):
        count = blocks if scale.ndim == 3 else packed.shape[1]
        zero = _unpacked(call[3], bits, count).reshape(*weight.shape[:2], blocks, 1)
    real = (weight - zero) * scale.reshape(*weight.shape[:2], blocks, 1)
    real = real.reshape(*weight.shape[:2], width)
    return [np.einsum("efh,echx->ecfx", real, tokens)]
