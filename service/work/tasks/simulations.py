"""A plan simulated; the timeline is kept as a trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from costmodel.simulation.result import Simulation
from costmodel.simulation.trace import trace_json
from planner.requests.conventional_layouts import run_of_layout, simulated_layout
from planner.requests.option_texts import check_drawing
from planner.requests.options.simulations import LayoutOptions, SimulationOptions
from planner.requests.parameter_servers import served_json, served_layout, served_plan
from planner.requests.simulations import answer, placed, simulated
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.given import Given

_OPTIONS = TypeAdapter(SimulationOptions)
_LAYOUT = TypeAdapter(LayoutOptions)


def simulate(given: Given) -> Outcome:
    """What `planner simulate --json` prints, the trace that `--trace` writes, and the picture.

    Raises:
        UserError: an option is wrong.
    """
    options = _OPTIONS.validate_python(given.request["options"])
    if "layout" in given.request:
        return _of_layout(given, options)
    item, _ = given.content(str(given.request["plan"]), "plan")
    given.report(f"simulating {item.name}")
    plan = given.plan(item.id, staged=True)
    machine = given.machine_file(options.cluster)
    if options.servers is not None:
        options.check_served()
        return Outcome(served_json(served_plan(placed(options, plan, machine), options.servers)))
    result = simulated(plan, options, machine)
    return _kept(given, result, item.name, {"plan": item.id})


def _of_layout(given: Given, options: SimulationOptions) -> Outcome:
    """The same of a conventional layout; with parameter servers there is no timeline."""
    model, told = str(given.request["model"]), dict(given.request["layout"])
    servers, called = told.pop("servers") or options.servers, told.pop("name")
    layout = _LAYOUT.validate_python(told)
    config, name = given.configuration(model)
    name = name if called is None else str(called)
    given.report(f"simulating {name}")
    if servers is not None:
        options.check_served()
        return Outcome(
            served_json(served_layout(run_of_layout(layout, config, name), str(servers)))
        )
    return _kept(given, simulated_layout(layout, config, name, options), name, {"model": model})


def _kept(given: Given, result: Simulation, name: str, facts: Mapping[str, str]) -> Outcome:
    trace = NewItem("trace", name, trace_json(result).encode(), facts)
    found = {**answer(result), "trace": "$trace"}
    kind = given.request.get("plot")
    if kind is None:
        return Outcome(found, (trace,))
    picture = NewItem("export", f"simulation.{kind}", _drawn(result, kind), facts)
    return Outcome({**found, "plot": "$export"}, (trace, picture))


def _drawn(result: Simulation, kind: str) -> bytes:
    """The picture that `--plot` writes."""
    from costmodel.simulation.plot import save_plot  # noqa: PLC0415  brings in matplotlib

    check_drawing("plot")
    path = Path(f"picture.{kind}")
    save_plot(result, path, kind)
    return path.read_bytes()
