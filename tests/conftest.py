"""Settings of all tests."""

import pytest
from hypothesis import settings

# `make test-mindspore` runs it, in an environment of its own.
collect_ignore = ["mindspore_package"]

# A loaded machine must not fail a test, and a second run must see the same examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--operator-candidates",
        type=int,
        default=6,
        help="ways to split each example of an operator on each mesh; 40 is a long run",
    )
