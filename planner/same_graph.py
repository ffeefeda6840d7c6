"""Whether a plan is one of a model: the same graph comes out of the same preparation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from importers.errors import ModelError, UnboundError
from ir.batch import BatchError
from ir.graph import OpGraph
from ir.plan import Plan
from ir.symbols import Symbol, SymbolError, parse_symbol
from planner.preparation import prepare
from planner.request import Cuts, RequestError, SearchRequest
from topology.cluster import Cluster


def planned_graph(plan: Plan, read: Callable[[Mapping[str, int | Symbol]], OpGraph]) -> OpGraph:
    """The graph of a model at the sizes of a plan, if the plan's search prepared the same.

    Args:
        plan: the plan.
        read: reads the model at sizes of its open dimensions.

    Raises:
        RequestError: it is another one than the plan's.
        ModelError: the model cannot be read, whatever its sizes.
    """
    bound, why = bindings(plan), ""
    try:
        graph = read(bound)
        ready, _ = prepare(graph, Cluster.from_dict(plan.cluster), _request(plan))
        if ready.digest() == plan.digest:
            return graph
        why = f"with digest {plan.digest[:12]}, this one has {ready.digest()[:12]}"
    except ModelError as error:
        if not isinstance(error, UnboundError) and not error.where.startswith("--bind"):
            raise
        at = ", ".join(f"{name}={size}" for name, size in bound.items()) or "no open dimension"
        why = f"with {at}; of this one, {error.what}"
    except (BatchError, RequestError, SymbolError) as error:
        why = f"which this one cannot be: {str(error).splitlines()[0]}"
    raise RequestError(
        f"the plan is for another model: it was made from {plan.graph.name!r} {why}\n"
        "  at:  the model and the plan\n"
        "  fix: pass the model that was planned, or search again"
    )


def _request(plan: Plan) -> SearchRequest:
    """What decided how the model was prepared."""
    stages = plan.pipeline
    return SearchRequest(
        training=bool(plan.request.get("training", True)),
        dtype=_text(plan.request, "dtype"),
        batch=_number(plan.request, "batch") if stages is None else stages.micro_batch,
        fused_attention=bool(plan.request.get("fused_attention", True)),
        rules=tuple((str(kind), str(rule)) for kind, rule in _pairs(plan.request, "rules")),
        solver=str(plan.request.get("solver", "")),
        pins=tuple((str(name), _cuts(cuts)) for name, cuts in _pairs(plan.request, "pins")),
    )


def _pairs(request: Mapping[str, object], key: str) -> list[tuple[object, object]]:
    found = request.get(key, [])
    return [(first, second) for first, second in found] if isinstance(found, list | tuple) else []


def _cuts(found: object) -> Cuts:
    """Cuts as a plan's record has them; nothing where it has something else."""
    lists = (own for own in found if isinstance(own, list)) if isinstance(found, list) else ()
    return tuple(tuple(cut for cut in own if isinstance(cut, int)) for own in lists)


def bindings(plan: Plan) -> dict[str, int | Symbol]:
    """What the model's dynamic dimensions were bound to.

    Raises:
        RequestError: the plan has something else there.
    """
    return {str(name): _size(value) for name, value in _pairs(plan.request, "bind")}


def _size(value: object) -> int | Symbol:
    try:
        return value if isinstance(value, int) else parse_symbol(str(value))
    except SymbolError as error:
        raise RequestError(
            f"{error}\n  at:  request.bind of the plan\n  fix: search again"
        ) from error


def _text(request: Mapping[str, object], key: str) -> str | None:
    value = request.get(key)
    return None if value is None else str(value)


def _number(request: Mapping[str, object], key: str) -> int | None:
    value = request.get(key)
    return None if value is None else int(str(value))
