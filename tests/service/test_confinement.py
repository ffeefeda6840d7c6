"""A task in a process of its own: what it says comes back, and what it takes is limited."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from planner.requests.errors import UserError
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.confinement import Refusal, confined, received, share_memory
from service.work.given import Given

MEBIBYTE = 2**20
FILE = NewItem("trace", "t.json", b"\0\1\2", {"plan": "p"})


def said(task: Callable[[Given], Outcome], memory: int = 512 * MEBIBYTE) -> tuple[list[Any], int]:
    """All that a task says, and its exit status."""
    began_s = time.monotonic()
    child = confined(task, lambda report: Given({}, {}, report), memory, 5.0)
    found: list[Any] = []
    while True:
        try:
            message = received(child.messages, began_s)
        except EOFError:
            return found, child.reap()
        found.append(message)


@pytest.mark.fast
def test_progress_and_outcome_come_back() -> None:
    def task(given: Given) -> Outcome:
        given.report("half way: best 2 s, bound 1 s")
        return Outcome({"x": float("inf"), "y": [1, "z"]}, (FILE,), about=("m_1", {"nodes": 3}))

    (event, outcome), status = said(task)
    assert (event["stage"], event["cost_s"], event["bound_s"]) == ("half way", 2.0, 1.0)
    assert outcome == Outcome({"x": None, "y": [1, "z"]}, (FILE,), about=("m_1", {"nodes": 3}))
    assert status == 0


def test_a_fault_of_the_user_is_told_and_one_of_ours_is_not_explained() -> None:
    def users(_: Given) -> Outcome:
        raise UserError("no such thing", "here", "do that")

    def ours(_: Given) -> Outcome:
        raise ZeroDivisionError("/secret/path")

    assert said(users)[0] == [Refusal("no such thing\n  at:  here\n  fix: do that", True)]
    assert said(ours)[0] == [Refusal("a fault of the planner: ZeroDivisionError", False)]


def test_memory_is_limited() -> None:
    def greedy(_: Given) -> Outcome:
        return Outcome({"length": len(bytearray(300 * MEBIBYTE))})

    assert isinstance(said(greedy, 512 * MEBIBYTE)[0][0], Outcome)
    ((refusal,), _) = said(greedy, 100 * MEBIBYTE)
    assert refusal == Refusal("the job needs more memory than it may have", True)


def test_processes_of_a_task_share_its_memory() -> None:
    def sharing(_: Given) -> Outcome:
        share_memory(3)
        return Outcome({"length": len(bytearray(300 * MEBIBYTE))})

    assert isinstance(said(sharing, 1200 * MEBIBYTE)[0][0], Outcome)
    ((refusal,), _) = said(sharing, 600 * MEBIBYTE)
    assert refusal == Refusal("the job needs more memory than it may have", True)


def test_a_process_that_ends_itself_says_nothing_more() -> None:
    def crashing(given: Given) -> Outcome:
        given.report("so far")
        os.kill(os.getpid(), signal.SIGKILL)
        return Outcome({})

    messages, status = said(crashing)
    assert len(messages) == 1
    assert status == -signal.SIGKILL


def test_a_task_is_gone_when_it_is_killed() -> None:
    def endless(_: Given) -> Outcome:
        while True:
            time.sleep(1)

    child = confined(endless, lambda report: Given({}, {}, report), MEBIBYTE * 512, 5.0)
    child.kill()
    assert child.reap() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
