"""A process that another one started does not outlive it."""

from __future__ import annotations

import os
import threading
import time

import pytest

from executors import parent

pytestmark = pytest.mark.fast

WAITED_S = 60.0


def test_it_ends_when_its_parent_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter((10, 10))
    ended, codes = threading.Event(), list[int]()

    def leave(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    parent.leaves_with_parent()
    assert ended.wait(WAITED_S)
    assert codes == [1]
