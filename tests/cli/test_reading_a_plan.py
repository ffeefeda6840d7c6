"""The page about reading a plan shows what the command prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reading-a-plan.md").read_text()
HEADING = re.compile(r"^[A-Z][A-Za-z ]+", re.MULTILINE)
LATER = {"Written", "Notes"}


def headings(text: str) -> list[str]:
    """First words of the lines that follow an empty line."""
    found = (HEADING.match(block) for block in text.split("\n\n"))
    return [match[0].strip() for match in found if match]


def test_every_block_of_a_summary_is_explained(
    mlp: Path, planner: Callable[..., Any], tmp_path: Path
) -> None:
    out = planner("search", mlp, "--devices", 8, "-o", tmp_path).out
    name, _, rest = out.partition("\n")
    assert f"- **{name.split()[0]} " in PAGE or f" ({name.split()[0]})" in PAGE
    blocks = [h for h in headings(rest) if h not in LATER]
    assert len(blocks) >= 5
    assert [h for h in blocks if f"```\n{h}" not in PAGE] == []


def test_its_commands_exist(planner: Callable[..., Any]) -> None:
    for page in (PAGE, (DOCS / "zh" / "quickstart.md").read_text()):
        commands = re.findall(r"planner (search|inspect|show|diff|export)\b([^#\n`]*)", page)
        assert {"search", "show", "diff"} <= {name for name, _ in commands}
        for name, rest in commands:
            words = planner(name, "--help").out.replace(",", " ").split()
            assert [o for o in re.findall(r"\s(--?[a-z-]+)", rest) if o not in words] == []


def test_its_links_lead_somewhere() -> None:
    for page in (DOCS / "reading-a-plan.md", DOCS / "zh" / "quickstart.md", DOCS / "formats.md"):
        links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == []
