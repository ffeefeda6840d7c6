"""`search --shard FILE`: calls of MindSpore's `shard` are checked and become pins."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import UserError
from cli.rank_tables import table_text

if TYPE_CHECKING:
    from planner.request import SearchRequest
    from topology.cluster import Cluster


def with_shards(
    request: SearchRequest, file: Path | None, model: Path, cluster: Cluster
) -> SearchRequest:
    """The request with the pins that the calls in a file stand for; warnings go to stderr.

    Raises:
        ShardError: MindSpore refuses a call.
        UserError: the file cannot be read, or the target is another.
    """
    if file is None:
        return request
    if request.target != "mindspore":
        raise UserError("shard is MindSpore's", f"--shard {file}", "use --target mindspore")
    from importers.model_file import import_model_file  # noqa: PLC0415
    from planner.preparation import prepare  # noqa: PLC0415
    from planner.shard import ShardError, check_calls, pins_of_calls, read_calls  # noqa: PLC0415

    context, calls = read_calls(table_text(file, f"--shard {file}"), str(file))
    graph, _ = prepare(import_model_file(model, dict(request.bind)), cluster, request)
    issues = check_calls(graph, calls, context, cluster.devices)
    for issue in issues:
        if not issue.is_error:
            print(f"warning: {issue}", file=sys.stderr)
    errors = [issue for issue in issues if issue.is_error]
    if errors:
        raise ShardError(*errors)
    pins = pins_of_calls(graph, calls, context, cluster.devices)
    strategy = request.dataset_strategy or context.dataset_strategy
    return replace(request, pins=tuple(sorted({*request.pins, *pins})), dataset_strategy=strategy)
