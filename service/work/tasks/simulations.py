"""A plan simulated; the timeline is kept as a trace."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from costmodel.simulation.result import Simulation
from costmodel.simulation.trace import trace_json
from planner.asking.simulation import SimulationOptions, simulated
from planner.asking.simulation_json import answer
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.given import Given

_OPTIONS = TypeAdapter(SimulationOptions)


def simulate(given: Given) -> Outcome:
    """What `planner simulate --json` prints, the trace that `--trace` writes, and the picture.

    Raises:
        UserError: an option is wrong.
    """
    options = _OPTIONS.validate_python(given.request["options"])
    item, _ = given.content(str(given.request["plan"]), "plan")
    given.report(f"simulating {item.name}")
    plan = given.plan(item.id, staged=True)
    result = simulated(plan, options, given.machine_file(options.cluster))
    trace = NewItem("trace", item.name, trace_json(result).encode(), {"plan": item.id})
    found = {**answer(result), "trace": "$trace"}
    kind = given.request.get("plot")
    if kind is None:
        return Outcome(found, (trace,))
    picture = NewItem("export", f"simulation.{kind}", _drawn(result, kind), {"plan": item.id})
    return Outcome({**found, "plot": "$export"}, (trace, picture))


def _drawn(result: Simulation, kind: str) -> bytes:
    """The picture that `--plot` writes."""
    from costmodel.simulation.plot import save_plot  # noqa: PLC0415  brings in matplotlib

    path = Path(f"picture.{kind}")
    save_plot(result, path, kind)
    return path.read_bytes()
