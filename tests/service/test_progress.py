"""Lines of progress become events: the first of each stage, and not too many."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.store.items import Item
from service.work.given import Given
from service.work.progress import MOST_EVENTS, Event, Throttle, event_of
from service.work.tasks.searches import search

pytestmark = pytest.mark.fast

LOOKING = "nothing fits: looking for the smallest change that makes it fit"


@pytest.mark.parametrize(
    ("line", "stage", "cost_s", "bound_s"),
    [
        ("reading gpt2.onnx", "reading gpt2.onnx", None, None),
        ("polishing: best 0.25 s, bound 1e-3 s", "polishing", 0.25, 1e-3),
        ("ladder: nothing that fits yet, bound 2 s", "ladder", None, 2.0),
        ("4 stages, solved in full: 1.5 s, too large", "4 stages, solved in full", None, None),
        ("4 stages, solved in full: 1.5 s", "4 stages, solved in full", 1.5, None),
        ("without a memory limit: best 0.2 s, bound 0.2 s", "without a memory limit", None, 0.2),
        ("it fits: best 0.25 s", "it fits", 0.25, None),
        ("2 stages, 8 micro-batches of 4: at least 0.5 s, expected 0.75 s",
         "2 stages, 8 micro-batches of 4", None, 0.5),
    ],
)  # fmt: skip
def test_cost_and_bound_are_read(
    line: str, stage: str, cost_s: float | None, bound_s: float | None
) -> None:
    assert event_of(line) == Event(line, stage, cost_s, bound_s)


@pytest.mark.parametrize("memory", ["", "12MiB"])
def test_the_best_of_a_search_is_only_what_fits(
    tmp_path: Path, mlp_bytes: bytes, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name, events = "m_" + 32 * "0", list[Event]()
    item = Item(name, "model", "mlp.onnx", "", 0, 0.0, {})
    options = {"devices": 2, "batch": 4096, **({"memory": memory} if memory else {})}
    told = search(
        Given({"model": name, "options": options}, {name: (item, mlp_bytes)},
              lambda line: events.append(event_of(line)))
    ).result  # fmt: skip
    costs = [event.cost_s for event in events if event.cost_s is not None]
    assert costs
    assert min(costs) >= told["step_time_s"] * (1 - 1e-5)


@given(st.lists(st.sampled_from(["a: best 1 s", "a: best 2 s", "b", "c 7", "c 8"]), max_size=60))
def test_every_stage_and_the_last_line_are_told(lines: list[str]) -> None:
    sent: list[Event] = []
    throttle = Throttle(sent.append)
    for line in lines:
        throttle(line)
    throttle.flush()
    assert [e.text for e in sent[-1:]] == lines[-1:]
    assert {e.text[0] for e in sent} == {line[0] for line in lines}


def test_there_is_an_end_to_events() -> None:
    sent: list[Event] = []
    throttle = Throttle(sent.append)
    for number in range(10 * MOST_EVENTS):
        throttle("ab"[number % 2])
    assert len(sent) == MOST_EVENTS


def test_a_job_says_why_nothing_fits_before_it_looks_for_what_would(
    tmp_path: Path, mlp_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, lines = "m_" + 32 * "0", list[str]()
    item = Item(name, "model", "mlp.onnx", "", 0, 0.0, {})
    request = {"model": name, "options": {"devices": 2, "memory": "3MiB"}}
    told = search(Given(request, {name: (item, mlp_bytes)}, lines.append)).result
    why, looking = lines.index(str(told["message"])), lines.index(LOOKING)
    assert why < looking
    assert any(line.startswith("trying --memory ") for line in lines[looking:])
    assert told["explanation"]["complete"]
