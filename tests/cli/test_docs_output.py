"""What README and docs show of a command is what it prints."""

from __future__ import annotations

import pytest

from tests.cli.docs_output import PAGES, ROOT, refreshed


@pytest.mark.parametrize("name", PAGES)
def test_the_output_in_a_page_is_what_its_commands_print(name: str) -> None:
    text = (ROOT / name).read_text()
    assert refreshed(text) == text, "run `make docs`"


def test_other_output_is_noticed() -> None:
    """A number changed by hand in the first block of a page."""
    text = (ROOT / "docs" / "resnet50.md").read_text()
    edited = text.replace("batch 256, ", "batch 256, 1", 1)
    assert edited != text
    assert refreshed(edited) == text
