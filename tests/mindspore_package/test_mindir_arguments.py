"""What is recorded of MindSpore's primitives is what the package says."""

from __future__ import annotations

import json
from pathlib import Path

from tests.mindspore_package.mindir_arguments import arguments

RECORD = Path(__file__).parents[1] / "data" / "mindir" / "arguments.json"


def test_the_recorded_arguments_are_those_of_the_package() -> None:
    assert json.loads(RECORD.read_text()) == arguments()
