"""Operators in the form that XLA splits as their rules say.

Every other kind runs on the semantics of all executors. Those here would gather rows or classes by
index, which the partitioner of XLA cannot follow, or XLA has one instruction for them.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from executors.semantics.experts import token_slots
from executors.semantics.windows import paddings
from ir.semantics.arrays import NUMPY, computing_with
from ir.semantics.call import Call, NotRunError


def loss(call: Call) -> list[Any]:
    """Mean of softmax cross-entropy with the number of the row as its class, without indices."""
    data: Any = call[0]
    if not data.ndim:
        return [data]
    if data.ndim == 1:
        odd = (np.arange(data.shape[0]) % 2).astype(data.dtype)
        return [jnp.mean(jnp.logaddexp(data, 0.0) - odd * data)]
    dims, classes = data.shape[:-1], data.shape[-1]
    target = np.arange(math.prod(dims)).reshape(dims) % classes
    top = lax.stop_gradient(jnp.max(data, axis=-1, keepdims=True))
    total = jnp.sum(jnp.exp(data - top), axis=-1, keepdims=True)
    hit = target[..., None] == lax.broadcasted_iota(np.int32, data.shape, data.ndim - 1)
    own = jnp.sum(jnp.where(hit, data, 0.0), axis=-1, keepdims=True)
    return [jnp.sum(top + jnp.log(total) - own) / math.prod(dims)]


def gather(call: Call) -> list[Any]:
    rows: Any = call[1]
    size = call[0].shape[call.int("axis")]
    library = np if isinstance(rows, np.ndarray) else jnp
    rows = library.where(rows < 0, rows + size, rows)
    return [jnp.take(call[0], rows, axis=call.int("axis"), mode="clip")]


def conv(call: Call) -> list[Any]:
    data, weight = call[0], call[1]
    rank = data.ndim - 2
    return [
        lax.conv_general_dilated(
            data,
            weight,
            call.ints("strides", (1,) * rank),
            paddings(call, data.shape[2:], weight.shape[2:]),
            rhs_dilation=call.ints("dilations", (1,) * rank),
            feature_group_count=call.int("group", 1),
        )
    ]


def top_k(call: Call) -> list[Any]:
    """The largest first; of equal ones the first."""
    data, chosen = call[0], call.result_dims[0]
    axis = call.int("axis", data.ndim - 1) % data.ndim
    sign = 1 if call.int("largest", 1) else -1
    moved = jnp.moveaxis(data, axis, -1)
    # By a sort, and the values by a sum: both are split as the rows are, a gather is not.
    keys = lax.stop_gradient(-sign * moved)
    places = lax.broadcasted_iota(np.int32, moved.shape, moved.ndim - 1)
    _, order = lax.sort((keys, places), num_keys=1, is_stable=True)
    index = order[..., : chosen[axis]]
    hit = index[..., None] == np.arange(moved.shape[-1])
    values = jnp.sum(jnp.where(hit, moved[..., None, :], 0.0), axis=-1)
    found = [jnp.moveaxis(values, -1, axis), jnp.moveaxis(index, -1, axis)]
    return found[: len(call.result_dims)]


def _places(call: Call, experts: int, capacity: int) -> Any:
    """One where a token has a slot of an expert: groups, experts, slots and tokens of a group.

    A group is a run of tokens that load all experts alike: so tokens may be split, each device
    filling its own run of the slots of each expert.
    """
    index: Any = call[1]
    if not isinstance(index, np.ndarray):
        raise NotRunError("the experts of the tokens are not known beforehand")
    with computing_with(NUMPY):
        slots = token_slots(index, experts, capacity, 0, experts)
    groups = next(g for g in range(capacity, 0, -1) if _are_alike(slots, g, experts, capacity))
    count, each = capacity // groups, len(slots) // groups
    own = (slots // capacity) * count + slots % count
    every = np.arange(experts * count).reshape(1, experts, count, 1)
    return (every == own.reshape(groups, 1, 1, each)).astype(call[0].dtype)


def _are_alike(slots: Any, groups: int, experts: int, capacity: int) -> bool:
    """Whether each of so many runs of tokens fills its own run of the slots of every expert."""
    if groups == 1:
        return True
    if capacity % groups or len(slots) != experts * capacity:
        return False
    run = slots % capacity // (capacity // groups)
    return bool((run.reshape(groups, -1) == np.arange(groups)[:, None]).all())


def dispatch(call: Call) -> list[Any]:
    experts, capacity, *rest = call.result_dims[0]
    places = _places(call, experts, capacity)
    tokens = jnp.reshape(call[0], (places.shape[0], -1, *rest))
    found = jnp.einsum("gect,gt...->egc...", places, tokens)
    return [jnp.reshape(found, call.result_dims[0])]


def combine(call: Call) -> list[Any]:
    experts, capacity, *rest = call[0].shape
    places = _places(call, experts, capacity)
    slots = jnp.reshape(call[0], (experts, places.shape[0], -1, *rest))
    found = jnp.einsum("gect,egc...->gt...", places, slots)
    return [jnp.reshape(found, call.result_dims[0])]


def relu(call: Call) -> list[Any]:
    return [jax.nn.relu(call[0])]
