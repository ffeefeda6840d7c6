"""A plan simulated; the timeline is kept as a trace."""

from __future__ import annotations

from pydantic import TypeAdapter

from costmodel.simulation.trace import trace_json
from planner.asking.simulation import SimulationOptions, simulated
from planner.asking.simulation_json import answer
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.given import Given

_OPTIONS = TypeAdapter(SimulationOptions)


def simulate(given: Given) -> Outcome:
    """What `planner simulate --json` prints, and the trace that `--trace` writes.

    Raises:
        UserError: an option is wrong.
    """
    options = _OPTIONS.validate_python(given.request["options"])
    item, _ = given.content(str(given.request["plan"]), "plan")
    given.report(f"simulating {item.name}")
    plan = given.plan(item.id, staged=True)
    result = simulated(plan, options, given.machine_file(options.cluster))
    trace = NewItem("trace", item.name, trace_json(result).encode(), {"plan": item.id})
    return Outcome({**answer(result), "trace": "$trace"}, (trace,))
