"""The cases that `write_cases` made."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=Path, required=True, help="the folder that write_cases made")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`case` is each folder, `large_case` one of those for 16 devices; `pair` is a plan and
    one of the same kind for half the devices.
    """
    folder: Path = metafunc.config.getoption("--cases")
    cases = sorted(folder.iterdir())
    assert cases, f"no case in {folder}"
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases, ids=lambda p: p.name)
    if "large_case" in metafunc.fixturenames:
        large = [p for p in cases if p.name.split("-")[1] == "16"]
        metafunc.parametrize("large_case", large, ids=lambda p: p.name)
    if "pair" in metafunc.fixturenames:
        pairs = [(big, small) for big in cases for small in cases if _belong(big.name, small.name)]
        assert pairs
        metafunc.parametrize("pair", pairs, ids=lambda p: f"{p[0].name}-to-{p[1].name}")


def _belong(big: str, small: str) -> bool:
    (model, devices, plan), (other, fewer, same) = big.split("-"), small.split("-")
    return (model, plan) == (other, same) and (int(devices), int(fewer)) in {(16, 8), (4, 2)}
