"""What MindSpore is told of pipeline stages, and what it does otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporters.python_tables import table
from exporters.sharding import counted
from exporters.stages import assigned_cells, torn_cells
from ir.plan import Plan

PLANNED = {"1f1b": "1f1b", "gpipe": "gpipe", "interleaved": "seqvpp"}
"""MindSpore's schedulers for those of a plan."""

_MODULE = '''
STAGES = {stages}
"""By cell: its pipeline stage."""

MICRO_BATCHES = {micro_batches}


def assign(network):
    """Give every cell its pipeline stage; returns a line for each that was not found.

    Call it before the training step is made. The network with its loss is then wrapped:
    `mindspore.nn.PipelineCell(network_with_loss, MICRO_BATCHES)`.
    """
    cells = dict(network.cells_and_names())
    for path, stage in STAGES.items():
        if path in cells:
            cells[path].pipeline_stage = stage
    return [f"{{path}}: the network has no such cell" for path in STAGES if path not in cells]
'''

_ONE_STAGE = '''
MICRO_BATCHES = {micro_batches}


def accumulated(network_with_loss):
    """The network with its loss, run once for each micro-batch: gradients are added up over them.

    Call it before the training step is made.
    """
    from mindspore.parallel.nn import GradAccumulation

    return GradAccumulation(network_with_loss, MICRO_BATCHES)
'''


def stage_module(plan: Plan, rename: Callable[[str], str]) -> str:
    """Lines that assign stages to the cells of a network, or accumulate the gradients of one stage;
    none without a pipeline.

    Args:
        plan: the plan.
        rename: from the path of a cell in the model to that in the network.
    """
    pipeline = plan.pipeline
    if pipeline.is_single:
        return ""
    if pipeline.parts == 1:
        return _ONE_STAGE.format(micro_batches=pipeline.micro_batches)
    cells = {rename(path): stage for path, stage in assigned_cells(plan).items()}
    parts = pipeline.parts
    return _MODULE.format(
        stages=table({path: stage % parts for path, stage in cells.items()}),
        micro_batches=pipeline.micro_batches,
    )


def scheme_losses(plan: Plan) -> Iterator[str]:
    """What MindSpore does otherwise with the stages of a plan, a sentence each."""
    pipeline = plan.pipeline
    if pipeline.is_single:
        return
    torn = torn_cells(plan)
    if torn:
        yield (
            f"the plan cuts inside {counted(torn, 'cells')}: MindSpore gives a cell one stage, so "
            "move the operators behind the cut into a cell of their own"
        )
    if pipeline.schedule not in PLANNED:
        yield f"MindSpore has no schedule {pipeline.schedule}: 1f1b stands in the script"
    if len(pipeline.sends) > 0:
        yield (
            "MindSpore chooses the layout of a tensor that is sent between stages; in the plan "
            "each device of a stage sends its shard"
        )
    if pipeline.micro_batches < pipeline.parts:
        yield (
            f"MindSpore takes at least as many micro-batches as stages, {pipeline.parts}; the plan "
            f"has {pipeline.micro_batches}: plan with smaller micro-batches"
        )
