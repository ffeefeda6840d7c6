"""What jobs do: one function for each kind, from a request and its items to an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.store.queue import Outcome
from service.work.given import Given
from service.work.tasks.explanations import explain
from service.work.tasks.exports import export
from service.work.tasks.recipes import rank_layouts, read_recipe
from service.work.tasks.searches import search
from service.work.tasks.simulations import simulate
from service.work.tasks.sweeps import sweep
from service.work.tasks.uploads import read_cluster, read_model, read_plan
from service.work.tasks.verifications import verify

TASKS: Mapping[str, Callable[[Given], Outcome]] = MappingProxyType(
    {
        "model": read_model,
        "cluster": read_cluster,
        "plan": read_plan,
        "search": search,
        "simulation": simulate,
        "sweep": sweep,
        "verification": verify,
        "export": export,
        "layouts": rank_layouts,
        "recipe": read_recipe,
        "explanation": explain,
    }
)
"""By kind of job. A task runs in a process of its own and knows no database."""
