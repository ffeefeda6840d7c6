"""README and the index of the documentation name nothing that does not exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INDEX = (ROOT / "docs" / "README.md").read_text()


def app_commands() -> list[str]:
    return list(typer.main.get_group(app).commands)


def test_its_make_targets_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert {"demo", "test"} <= targets
    makefile = (ROOT / "Makefile").read_text()
    assert [t for t in targets if f"\n{t}: " not in makefile] == []


def test_its_commands_and_options_exist(planner: Callable[..., Any]) -> None:
    commands = re.findall(r"^(?:\$ )?planner ([\w-]+)([^#\n]*)", README + INDEX, re.MULTILINE)
    assert {name for name, _ in commands} == set(app_commands())
    for name, rest in commands:
        words = planner(name, "--help").out.replace(",", " ").split()
        assert [o for o in re.findall(r"\s(--?[a-z-]+)", rest) if o not in words] == []


def test_its_links_lead_somewhere() -> None:
    for page, folder in ((README, ROOT), (INDEX, ROOT / "docs")):
        links = re.findall(r"\]\(([^)#]+)\)", page)
        assert [link for link in links if not (folder / link).exists()] == []


def test_the_index_lists_every_page() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(pages - set(re.findall(r"\]\(([\w-]+\.md)[)#]", INDEX))) == []


def test_readme_is_one_screen_of_prose_and_one_of_output() -> None:
    prose, output = (
        re.sub(r"```.*?```", "", README, flags=re.DOTALL),
        re.findall(r"```(.*?)```", README, flags=re.DOTALL),
    )
    assert len([line for line in prose.splitlines() if line]) <= 48
    assert max(block.count("\n") for block in output) <= 48


def test_its_command_is_the_command_of_the_demo() -> None:
    command = re.search(r"^\$ (planner search .*)$", README, re.MULTILINE)
    assert command is not None
    model, options = "data/models/llama3_8b.onnx.gz", "--devices 16 --batch 64 -o build/demo"
    assert command[1] == f"planner search {model} {options}"
    assert (ROOT / model).exists()
    demo = (ROOT / "Makefile").read_text()
    assert "planner search $(DEMO_MODEL) --devices 16 --batch 64 -o $(DEMO_OUTPUT)" in demo
