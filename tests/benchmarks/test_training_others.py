"""What nine of ten runs lie between under the constants of others."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.training_others import quantiles

pytestmark = pytest.mark.fast


def test_each_pair_has_the_same_weight() -> None:
    """Many runs of one pair say no more than few of another."""
    few, many = np.array([-1.0, 1.0]), np.full(1000, 0.1)
    assert quantiles([few, many]).tolist() == pytest.approx([-1.0, 0.1, 1.0])
    assert quantiles([np.arange(100.0)])[1] == pytest.approx(49.0, abs=1.0)
