from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costmodel.training.distinct import distinct_rows


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.5, 2.0])] * 2, st.sampled_from("ab"))))
def test_every_row_is_its_kinds_first_one(rows: list[tuple[float, float, str]]) -> None:
    columns = [np.array([row[i] for row in rows]) for i in range(3)]
    first, kinds = distinct_rows(*columns)
    assert [rows[first[kind]] for kind in kinds] == rows
    assert sorted(first.tolist()) == sorted(rows.index(row) for row in set(rows))
