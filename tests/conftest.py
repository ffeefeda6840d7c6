"""Settings of all tests."""

import gc
from collections.abc import Generator, Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# `make test-mindspore` runs the one and `make test-judges` the other, in environments of their own.
collect_ignore = ["mindspore_package"]
if find_spec("jax") is None and find_spec("torch") is None:
    collect_ignore.append("judges")

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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests live as long as the run: the garbage collector need not visit them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _unhurried() -> Iterator[None]:
    """A loaded machine must not cut a search short: the limit that nobody gave is ten minutes, but
    in tests that have a clock of their own.
    """
    from planner import request  # noqa: PLC0415  loaded by workers alone

    defaults = {field.name: field.default for field in fields(request.SearchRequest)}
    default_s, clock, after = defaults["time_limit_s"], request.now_s, request.Deadline.after

    def after_unhurried(limit_s: float | None) -> request.Deadline:
        hurried = limit_s != default_s or request.now_s is not clock
        return after(limit_s if hurried else 600.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request.Deadline, "after", after_unhurried)
        yield


@pytest.fixture(scope="session")
def built_page() -> Path:
    """Folder of the page: the first worker that asks for it builds it, the others wait for that."""
    from service.web import build_page  # noqa: PLC0415  few tests need it

    try:
        return build_page.built_page()
    except build_page.PageError as error:
        pytest.fail(str(error), pytrace=False)
