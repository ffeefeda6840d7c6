"""`--calibration`: what a user measured moves every command alike, and two of them agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

import data
from importers.sizes import configuration
from ir.plan import Plan
from planner.requests.conventional_layouts import simulated_layout
from planner.requests.errors import UserError
from planner.requests.options.searches import SearchOptions
from planner.requests.options.simulations import LayoutOptions, RankingOptions, SimulationOptions
from planner.requests.searches import question
from planner.requests.simulations import placed, simulated
from planner.requests.sources import Document, ModelSource, model_file
from planner.search import search
from planner.whatif.axes import Place
from planner.whatif.layout_ranking import ranked
from planner.whatif.tasks import Asked, task_at
from topology.errors import ClusterError

LLAMA = "llama2-7b"
OPTIONS = SearchOptions(
    devices=16, batch=64, cluster="dgx-h100", target="torch", profile="megatron-core", dtype="bf16",
    pipeline="off", dp=16,
)  # fmt: skip


@cache
def _model() -> ModelSource:
    """Two layers of the network, read once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps({**configuration(LLAMA), "num_hidden_layers": 2}))
        graph = model_file(path).graph({"batch": 1, "sequence": 2048})
    return ModelSource("two layers", lambda _: graph, lambda *_: {})


def steps(**factors: float) -> Document:
    """A file of `calibrate steps` with constants of all families so many times as large."""
    shipped = data.calibration("training")
    families = {
        name: {"constants": {k: v * factors.get(k, 1.0) for k, v in own["constants"].items()}}
        for name, own in shipped["families"].items()
    }
    return Document("mine.yaml", yaml.safe_dump({**shipped, "families": families}))


def links(link: str = "450 GB/s", port: str = "50 GB/s", cluster: str = "dgx-h100") -> Document:
    """A file of `calibrate links`, of measured rates as if they were the maker's."""
    change = {
        "links": {"nvlink": {"bandwidth": {"value": link}}},
        "nics": {"ib": {"bandwidth": {"value": port}}},
    }
    override = {"servers": {"dgx_h100": {"use": "dgx_h100", "override": change}}}
    record = {"schema_version": 2, "name": "own", "use": cluster, "override": override}
    return Document("links.yaml", yaml.safe_dump(record))


def _plan(file: Document | None) -> Plan:
    return question(_model(), replace(OPTIONS, calibration=file)).plan()


@cache
def _plain() -> Plan:
    return _plan(None)


def _layouts(file: Document | None) -> float:
    asked = RankingOptions(
        devices=16, batch=64, cluster="dgx-h100", calibration=file, top=1,
        held="tp=8,dp=2,micro=1,zero=1,recompute=none",
    )  # fmt: skip
    return ranked(asked, configuration(LLAMA), LLAMA).best[0].prediction.step_s


def _simulated_layout(file: Document | None) -> tuple[float, float]:
    layout = LayoutOptions(
        layout="tp=8,dp=2,sp,batch=64,micro=1,zero=1", cluster="dgx-h100", profile="auto"
    )
    asked = SimulationOptions(calibration=file)
    found = simulated_layout(layout, configuration(LLAMA), LLAMA, asked)
    return found.step_s, found.estimate_s


def _whatif(file: Document | None) -> float:
    options = replace(OPTIONS, calibration=file)
    found = task_at(Asked(_model(), options, (), {}), Place(()))
    assert found is not None
    task, graphs = found
    return search(graphs[task.model], task.machine.cluster, task.request).estimate.step_time_s


SLOWER = {
    "products": steps(matmul=0.8),
    "attention": steps(attention=0.7),
    "element-wise": steps(memory=0.7),
    "links of steps": steps(link=0.5, port=0.5),
    "links": links("200 GB/s", "10 GB/s"),
}
FASTER = {"products": steps(matmul=1.1), "links": links("600 GB/s", "100 GB/s")}


def _steps(file: Document | None) -> Mapping[str, float]:
    """The step of every command."""
    plain = _plain()
    moved = placed(SimulationOptions(calibration=file), plain)
    layout, closed = _simulated_layout(file)
    return {
        "search": _plan(file).estimate.step_time_s,
        "whatif": _whatif(file),
        "explain": moved.estimate.step_time_s,
        "simulate": simulated(plain, SimulationOptions(calibration=file)).step_s,
        "layouts": _layouts(file),
        "simulate --layout": layout,
        "closed form": closed,
    }


@cache
def _usual() -> Mapping[str, float]:
    return _steps(None)


@pytest.mark.parametrize(
    ("file", "slower"),
    [*((each, True) for each in SLOWER.values()), *((each, False) for each in FASTER.values())],
    ids=[*(f"slower {n}" for n in SLOWER), *(f"faster {n}" for n in FASTER)],
)
def test_every_command_moves_the_same_way_and_two_agree(file: Document, slower: bool) -> None:
    found, usual = _steps(file), _usual()
    for name, step_s in found.items():
        assert (step_s > usual[name] * 1.001) == slower, name
        assert (step_s < usual[name] * 0.999) != slower, name
    assert found["search"] == pytest.approx(found["whatif"], rel=1e-12)
    assert found["search"] <= found["explain"] * 1.0001, "the older plan is no better than the best"
    assert found["layouts"] == pytest.approx(found["closed form"], rel=1e-6)


def test_a_file_that_changes_nothing_changes_nothing() -> None:
    for file in (steps(), links()):
        plan = _plan(file)
        assert plan.estimate == _plain().estimate
        assert any("nothing of this software and machine differs" in note for note in plan.notes)
        assert _layouts(file) == pytest.approx(_layouts(None), rel=1e-12)


def test_a_plan_remembers_what_it_was_priced_with() -> None:
    """A calibration comes once: a plan that has one is priced anew without it, or with it again."""
    own, plain = steps(matmul=0.8, link=0.5), _plain()
    plan = _plan(own)
    again = placed(SimulationOptions(calibration=own), plan)
    assert again.estimate.step_time_s == pytest.approx(plan.estimate.step_time_s, rel=1e-3)
    moved = placed(SimulationOptions(calibration=own), plain)
    back = placed(SimulationOptions(calibration=steps()), moved)
    assert back.cluster == plain.cluster
    assert back.estimate.step_time_s == pytest.approx(plain.estimate.step_time_s, rel=1e-3)
    slower, usual = (simulated(each, SimulationOptions()).step_s for each in (moved, plain))
    assert slower > usual


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (Document("x.yaml", "a: 1"), "neither of steps nor of links"),
        (Document("x.yaml", "families: {}"), "it has no constants of|interval"),
        (steps(matmul=0.0), "is 0"),
        (steps(matmul=-1.0), "negative"),
        (links(cluster="dgx-a100"), "links between a100|override"),
    ],
    ids=["other", "empty", "no rate", "negative", "other machine"],
)
@pytest.mark.parametrize("ask", [_layouts, _plan], ids=["layouts", "search"])
def test_a_file_that_does_not_fit_is_refused(
    file: Document, told: str, ask: Callable[[Document], object]
) -> None:
    with pytest.raises((UserError, ClusterError), match=told):
        ask(file)
