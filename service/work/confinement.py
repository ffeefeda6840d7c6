"""A process of its own for one task: limited, alone, and gone with whoever started it."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from planner.requests.collector import collect_rarely
from planner.requests.errors import is_user_error
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.given import Given
from service.work.progress import Throttle

MOST_ANSWER_BYTES = 2**30
"""Of one message from a task."""
_PR_SET_PDEATHSIG = 1
_FAULT = 70


@dataclass(frozen=True, slots=True)
class Refusal:
    """A task that ended without an outcome."""

    message: str
    is_users: bool
    """Whether it is for the user to mend, and not a fault of ours."""


@dataclass(frozen=True, slots=True)
class Confined:
    """A task at work."""

    pid: int
    messages: Connection

    def kill(self) -> None:
        """End it now."""
        os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        self.messages.close()
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def confined(
    task: Callable[[Given], Outcome], given: Callable[[Callable[[str], None]], Given],
    memory_bytes: int, cpu_s: float,
) -> Confined:  # fmt: skip
    """Begin a task in a child process.

    Args:
        task: what is done.
        given: makes what it works on, from where it reports to.
        memory_bytes: address space beyond that of this process.
        cpu_s: processor time of all its threads.
    """
    ours, theirs = Pipe(duplex=False)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return Confined(pid, ours)
    status = _FAULT
    try:
        ours.close()
        _confine(parent, memory_bytes, cpu_s)
        collect_rarely()
        _perform(task, given, theirs)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def _confine(parent: int, memory_bytes: int, cpu_s: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(_FAULT)
    most = _address_space_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    seconds = int(cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory_bytes, memory_bytes))


def share_memory(processes: int) -> None:
    """Leave each of so many processes, begun after this, its share of what this one may take."""
    most, hard = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        used = _address_space_bytes()
        share = used + max(most - used, 0) // processes
        resource.setrlimit(resource.RLIMIT_AS, (share, hard))


def _address_space_bytes() -> int:
    """What this process maps already: libraries above all."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  of the kernel
        return int(file.read().split()[0]) * resource.getpagesize()


def _perform(
    task: Callable[[Given], Outcome], given: Callable[[Callable[[str], None]], Given],
    messages: Connection,
) -> None:  # fmt: skip
    throttle = Throttle(lambda event: _send(messages, {"event": asdict(event)}))
    try:
        outcome = task(given(throttle))
    except MemoryError:
        _send(messages, {"refusal": {"message": "the job needs more memory than it may have",
                                     "is_users": True}})  # fmt: skip
    except Exception as error:  # noqa: BLE001  whatever it is, the owner is told
        _send(messages, {"refusal": asdict(_refusal(error))})
    else:
        throttle.flush()
        _send_outcome(messages, outcome)


def _refusal(error: Exception) -> Refusal:
    if is_user_error(error):
        return Refusal(str(error), is_users=True)
    sys.excepthook(type(error), error, error.__traceback__)
    return Refusal(f"a fault of the planner: {type(error).__name__}", is_users=False)


def _send_outcome(messages: Connection, outcome: Outcome) -> None:
    files = [
        {"kind": new.kind, "name": new.name, "facts": dict(new.facts)} for new in outcome.files
    ]
    about = None if outcome.about is None else [outcome.about[0], dict(outcome.about[1])]
    result = finite(dict(outcome.result))
    _send(messages, {"result": result, "files": files, "keep": outcome.keep, "about": about,
                     "views": list(outcome.views)})  # fmt: skip
    for content in (*(new.content for new in outcome.files), *outcome.views.values()):
        messages.send_bytes(content)


def finite(value: Any) -> Any:
    """Plain JSON values; a number that is not finite becomes null."""
    return json.loads(json.dumps(value, default=float), parse_constant=lambda _: None)


def _send(messages: Connection, value: Any) -> None:
    messages.send_bytes(json.dumps(value).encode())


def received(messages: Connection, began_s: float) -> dict[str, Any] | Outcome | Refusal:
    """The next message of a task: an event, its outcome or why there is none.

    Raises:
        EOFError: there is none, and no further one.
    """
    value: dict[str, Any] = json.loads(messages.recv_bytes(MOST_ANSWER_BYTES))
    if "event" in value:
        return {**value["event"], "elapsed_s": round(time.monotonic() - began_s, 3)}
    if "refusal" in value:
        return Refusal(**value["refusal"])
    files = tuple(
        NewItem(file["kind"], file["name"], messages.recv_bytes(MOST_ANSWER_BYTES), file["facts"])
        for file in value["files"]
    )
    about = None if value["about"] is None else (value["about"][0], value["about"][1])
    views = {name: messages.recv_bytes(MOST_ANSWER_BYTES) for name in value["views"]}
    return Outcome(value["result"], files, value["keep"], about, views)
