"""No published case is forgotten: each is a test, or stands in docs/cases.md with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.case_file import all_cases

pytestmark = pytest.mark.fast

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[1] / "docs" / "cases.md"


def test_each_case_is_tested_or_explained() -> None:
    tested = "".join(p.read_text() for p in FOLDER.glob("test_*.py") if p != Path(__file__))
    _, _, rest = DOCS.read_text().partition("Cases that do not apply:")
    explained = {word.strip(",") for line in rest.splitlines() for word in line.split()}
    cases = set(all_cases())
    assert len(cases) == 43
    here = {name for name in cases if name in tested}
    assert here | (explained & cases) == cases
