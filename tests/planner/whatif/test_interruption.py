"""Ctrl-C ends a sweep at once, whoever works on it and whatever that is doing."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from planner.whatif import workbench
from planner.whatif.workbench import LocalEngine, Workbench


@dataclass(frozen=True)
class Endless:
    """A task that no worker ever answers."""

    key: str

    @property
    def model(self) -> str:
        threading.Event().wait()
        return ""


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, GeneratorExit])
def test_workers_in_the_midst_of_a_search_are_ended(
    interruption: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        assert multiprocessing.active_children()
        raise interruption

    monkeypatch.setattr(workbench, "wait", interrupted)
    tasks: Any = [Endless("a"), Endless("b")]
    with pytest.raises(interruption):
        next(LocalEngine(2).run({}, tasks, keep_plans=False))
    assert not multiprocessing.active_children()


def test_no_solver_takes_it_for_a_wish_to_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends with what it has would let the sweep go on to the next point."""

    def solver(*_: object, **__: object) -> str:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return "the best until then"
        raise AssertionError("nothing was raised")

    monkeypatch.setattr(workbench, "search", solver)
    machine, request = SimpleNamespace(cluster=None), SimpleNamespace(global_batch=8)
    task: Any = SimpleNamespace(model="m", machine=machine, request=request)
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Workbench({"m": SimpleNamespace()}, keep_plans=False).plan(task)  # type: ignore[dict-item]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, outside)


def test_one_who_ignores_it_goes_on_ignoring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(
        workbench, "search", lambda *_, **__: seen.append(signal.getsignal(signal.SIGINT))
    )
    machine = SimpleNamespace(cluster=None, noted=lambda plan: plan)
    task: Any = SimpleNamespace(model="m", machine=machine, request=SimpleNamespace(global_batch=8))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Workbench({"m": SimpleNamespace()}, keep_plans=False).plan(task)  # type: ignore[dict-item]
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_IGN]
