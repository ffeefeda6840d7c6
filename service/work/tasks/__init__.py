"""What jobs do: one function for each kind, from a request and its items to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.store.queue import Outcome
from service.work.given import Given


def _model(given: Given) -> Outcome:
    from service.work.tasks.uploads import read_model  # noqa: PLC0415

    return read_model(given)


def _cluster(given: Given) -> Outcome:
    from service.work.tasks.uploads import read_cluster  # noqa: PLC0415

    return read_cluster(given)


def _plan(given: Given) -> Outcome:
    from service.work.tasks.uploads import read_plan  # noqa: PLC0415

    return read_plan(given)


def _search(given: Given) -> Outcome:
    from service.work.tasks.searches import search  # noqa: PLC0415

    return search(given)


def _simulation(given: Given) -> Outcome:
    from service.work.tasks.simulations import simulate  # noqa: PLC0415

    return simulate(given)


def _sweep(given: Given) -> Outcome:
    from service.work.tasks.sweeps import sweep  # noqa: PLC0415

    return sweep(given)


def _verification(given: Given) -> Outcome:
    from service.work.tasks.verifications import verify  # noqa: PLC0415

    return verify(given)


def _export(given: Given) -> Outcome:
    from service.work.tasks.exports import export  # noqa: PLC0415

    return export(given)


TASKS: Mapping[str, Callable[[Given], Outcome]] = MappingProxyType(
    {
        "model": _model,
        "cluster": _cluster,
        "plan": _plan,
        "search": _search,
        "simulation": _simulation,
        "sweep": _sweep,
        "verification": _verification,
        "export": _export,
    }
)
"""By kind of job. A task runs in a process of its own and knows no database."""
