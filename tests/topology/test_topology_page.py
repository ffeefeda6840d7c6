"""docs/topology.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.topology.machines import file
from topology.loading import check_machine

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "topology.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_its_files_have_no_faults(text: str) -> None:
    given = yaml.safe_load(text)
    whole = given if "schema_version" in given else file() | {"servers": given["servers"]}
    machine, found = check_machine(yaml.safe_dump(whole), "docs/topology.md")
    assert machine is not None
    assert found == []
    assert machine.cluster(8).devices == 8


def test_it_lists_every_code() -> None:
    sources = [*(ROOT / "topology").glob("*.py"), ROOT / "cli" / "topology_check.py"]
    used = {
        code
        for path in sources
        for code in re.findall(r'"([EW]_[A-Z_]+)"', path.read_text("utf-8"))
    }
    told = set(re.findall(r"`([EW]_[A-Z_]+)`", PAGE))
    assert used == told
