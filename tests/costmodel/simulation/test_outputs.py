"""Traces that viewers open, and pictures that come out the same every time."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from costmodel.simulation import plot, trace
from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.plot import save_plot
from costmodel.simulation.result import Simulation, SimulationError
from costmodel.simulation.trace import trace_json
from tests.costmodel.simulation.runs import small_run
from tests.costmodel.simulation.test_plan_simulation import plan_of


def simulations() -> dict[str, Simulation]:
    return {
        "plan": simulate_plan(plan_of("attention"), Effects()),
        "fair": simulate_plan(plan_of("attention"), Effects(contention=Contention.FAIR)),
        "pipeline": simulate_layout(small_run(pp=4, dp=2), Effects()),
        "shards": simulate_layout(small_run(dp=8, zero_stage=3), Effects()),
    }


@pytest.fixture(scope="module")
def found() -> dict[str, Simulation]:
    return simulations()


NAMES = ("plan", "fair", "pipeline", "shards")


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_has_the_form_that_viewers_read(found: dict[str, Simulation], name: str) -> None:
    """Source: Trace Event Format: complete events of a thread nest, here they never overlap."""
    record: dict[str, Any] = json.loads(trace_json(found[name]))
    assert record["displayTimeUnit"] in {"ms", "ns"}
    names: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    spans: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in record["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            names[event["name"]].add((event["pid"], event["tid"]))
            continue
        assert event["ph"] in {"X", "C"}
        assert event["ts"] >= 0
        assert event["name"]
        if event["ph"] == "C":
            assert all(isinstance(v, float) for v in event["args"].values())
        else:
            assert event["dur"] > 0
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(spans) <= names["thread_name"]
    assert {pid for pid, _ in spans} <= {pid for pid, _ in names["process_name"]}
    for own in spans.values():
        ordered = sorted(own)
        assert all(b[0] >= a[1] - 1e-6 for a, b in itertools.pairwise(ordered))
    end = max(b for own in spans.values() for _, b in own)
    assert end == pytest.approx(found[name].timeline.step_s * 1e6)


def test_a_trace_shows_computation_of_the_whole_step(found: dict[str, Simulation]) -> None:
    simulation = found["plan"]
    events = json.loads(trace_json(simulation))["traceEvents"]
    compute = sum(e["dur"] for e in events if e["ph"] == "X" and e["tid"] == 0)
    assert compute == pytest.approx(1e6 * sum(simulation.account.computing.values()))


def test_the_parts_of_a_task_sum_to_it() -> None:
    """Also where layers are computed again, so that one task sends the same twice."""
    run = small_run(tp=2, pp=2, dp=2, recompute="full")
    tasks = [e for e in json.loads(trace_json(simulate_layout(run, Effects())))["traceEvents"]
             if e["ph"] == "X"]  # fmt: skip
    shown = [(e, [v for k, v in e["args"].items() if k.endswith("(ms)") and "hidden" not in k])
             for e in tasks]  # fmt: skip
    assert any(len(parts) > 2 for _, parts in shown)
    for event, parts in shown:
        alone = event["args"].get("alone_ms", event["dur"] / 1e3)
        assert sum(parts, 0.0) == pytest.approx(alone) or not parts


def test_equal_simulations_give_equal_files(tmp_path: Path) -> None:
    texts, pictures = [], []
    for number in range(2):
        simulation = simulations()["pipeline"]
        texts.append(trace_json(simulation))
        path = tmp_path / f"{number}.svg"
        save_plot(simulation, path, "svg")
        pictures.append(path.read_bytes())
    assert texts[0] == texts[1]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_written_in_both_forms(
    found: dict[str, Simulation], name: str, tmp_path: Path
) -> None:
    save_plot(found[name], tmp_path / "a.png", "png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    save_plot(found[name], tmp_path / "a.svg", "svg")
    text = (tmp_path / "a.svg").read_text()
    assert "<svg" in text
    assert "<dc:date>" not in text


@pytest.mark.fast
def test_another_form_is_refused(found: dict[str, Simulation], tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"'pdf'.*\n.*\n.*\.svg or \.png"):
        save_plot(found["plan"], tmp_path / "a.pdf", "pdf")
    assert not list(tmp_path.iterdir())
    assert plot.FORMATS == ("svg", "png")


def test_a_trace_that_no_viewer_opens_is_refused(
    found: dict[str, Simulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MAX_EVENTS", 3)
    with pytest.raises(SimulationError, match="fewer micro-batches"):
        trace_json(found["plan"])
