"""The ends of a graph."""

from __future__ import annotations

import math

import numpy as np

from executors.placement import Array
from ir.semantics.arrays import np as anp
from ir.semantics.call import Call


def loss(call: Call) -> list[Array]:
    """Mean over the rows of softmax cross-entropy, with the row's number as its class; a vector
    has one score in each row, of the class that an odd row has. `first_row` is the number of the
    first one.
    """
    data = call[0]
    if not data.ndim:
        return [data]
    first = call.int("first_row")
    if data.ndim == 1:
        odd = (first + np.arange(data.shape[0])) % 2
        return [anp.mean(anp.logaddexp(data, 0.0) - odd * data)]
    rows, classes = math.prod(data.shape[:-1]), data.shape[-1]
    flat = anp.reshape(data, (rows, classes))
    shifted = flat - anp.max(flat, axis=-1, keepdims=True)
    total = anp.log(anp.sum(anp.exp(shifted), axis=-1))
    return [anp.mean(total - shifted[np.arange(rows), (first + np.arange(rows)) % classes])]


def output(call: Call) -> list[Array]:
    """A delivered result: nothing is left to compute."""
    return [call[0]][: len(call.result_dims)]
