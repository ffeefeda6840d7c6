"""No case of MindSpore's tests is forgotten: each is a test, or stands in docs/mindspore-cases.md
with a reason.
"""

from __future__ import annotations

import re

import pytest

from tests.planner.mindspore_cases_file import all_cases
from tests.planner.mindspore_cases_list import DOCS, explained
from tests.planner.test_mindspore_cases_layouts import GROUPS, LAYOUTS, MOVES, RESHAPES
from tests.planner.test_mindspore_cases_operators import OPERATORS, PARAMETERS, STRATEGIES
from tests.planner.test_mindspore_cases_searches import SEARCHES

pytestmark = pytest.mark.fast


def test_each_case_is_a_test_or_has_a_reason() -> None:
    tested = [*GROUPS, *LAYOUTS, *MOVES, *OPERATORS, *PARAMETERS, *RESHAPES, *SEARCHES, *STRATEGIES]
    assert sorted([*tested, *explained()]) == list(range(len(all_cases())))
    said = re.search(
        r"has (\d+) cases.*?(\d+) of them are tests.*?(\d+) are not", DOCS.read_text(), re.DOTALL
    )
    assert said is not None
    counts = len(all_cases()), len(tested), len(explained())
    assert tuple(int(number) for number in said.groups()) == counts


def test_reasons_name_the_kind_of_their_cases() -> None:
    for number, (kind, reason) in explained().items():
        assert all_cases()[number]["kind"] == kind, number
        assert reason
