"""`search --shard FILE`: calls of MindSpore's `shard` are checked and become pins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.asking.errors import UserError
from planner.asking.sources import Document, ModelSource

if TYPE_CHECKING:
    from planner.request import SearchRequest
    from topology.cluster import Cluster


def with_shards(
    request: SearchRequest, file: Document | None, model: ModelSource, cluster: Cluster
) -> tuple[SearchRequest, tuple[str, ...]]:
    """The request with the pins that the calls in a file stand for, and warnings.

    Raises:
        ShardError: MindSpore refuses a call.
        UserError: the target is another.
    """
    if file is None:
        return request, ()
    if request.target != "mindspore":
        raise UserError("shard is MindSpore's", f"--shard {file.name}", "use --target mindspore")
    from planner.preparation import prepare  # noqa: PLC0415
    from planner.shard import ShardError, check_calls, pins_of_calls, read_calls  # noqa: PLC0415

    context, calls = read_calls(file.text, file.name)
    graph, _ = prepare(model.graph(dict(request.bind)), cluster, request)
    issues = check_calls(graph, calls, context, cluster.devices)
    warnings = tuple(str(issue) for issue in issues if not issue.is_error)
    errors = [issue for issue in issues if issue.is_error]
    if errors:
        raise ShardError(*errors)
    pins = pins_of_calls(graph, calls, context, cluster.devices)
    strategy = request.dataset_strategy or context.dataset_strategy
    pinned = tuple(sorted({*request.pins, *pins}))
    return replace(request, pins=pinned, dataset_strategy=strategy), warnings
