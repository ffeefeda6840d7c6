"""Minimum over the sum of two tables: a matrix product in which + is min and * is +."""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.network import FloatArray


@njit(cache=True, nogil=True)
def min_plus(first: FloatArray, second: FloatArray) -> FloatArray:
    """Least sum over the rows.

    Args:
        first: shape (n, p).
        second: shape (n, m).

    Returns:
        Shape (p, m); the same bits as the sums and minima of numpy.
    """
    columns = second.shape[1]
    result = np.empty((first.shape[1], columns))
    lowest = np.empty(columns)
    for place in range(first.shape[1]):
        lowest[:] = np.inf
        for row in range(first.shape[0]):
            added = first[row, place]
            for column in range(columns):
                total = added + second[row, column]
                lowest[column] = min(lowest[column], total)
        result[place] = lowest
    return result
