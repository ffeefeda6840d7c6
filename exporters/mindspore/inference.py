"""A plan as a Python file for inference with MindSpore, and for the slice of a dataset of a rank.

Checkpoints of a training plan are loaded in the layout that MindSpore gives the network for
prediction. A rank reads the rows of its shard, and keeps its part of height and width.

Source: MindSpore 2.10.0, `train/model.py`, infer_predict_layout and infer_train_layout;
`parallel/checkpoint_transform.py`, load_distributed_checkpoint; its tutorial on dataset slicing.
"""

from __future__ import annotations

import re

from exporters.errors import ExportError
from exporters.python_tables import table
from ir.plan import NamedLayout, Plan
from ir.violations import Violation

__all__ = ["inference_module", "losses"]

_MODULE = '''"""Inference with {model} on {devices} devices, and what a rank reads of a dataset.

Written by `planner export --format mindspore-inference`.

    import inference_mindspore as inference

    dataset = ds.GeneratorDataset(source, **inference.shard(rank))   # whole rows
    arrays = inference.sliced(rank, arrays)                          # its part of height and width
    inference.load(network, checkpoints)                             # of all ranks of the training
"""

from pathlib import Path

import mindspore as ms
import numpy as np

DEVICES = {devices}
HERE = Path(__file__).resolve().parent

MESH = {mesh}
"""Sizes of the axes over the ranks, the last of which varies fastest."""

INPUTS = {inputs}
"""By input: its dimensions on all ranks, its element type, and the axes that cut each dimension."""

BY_ROWS = {rows}
"""Axes that cut the first dimension of all inputs; a dataset is sharded over them."""


def _piece(rank, axes):
    """Which piece a rank holds, and of how many."""
    index, count = 0, 1
    for axis in axes:
        below = 1
        for size in MESH[axis + 1:]:
            below *= size
        index = index * MESH[axis] + rank // below % MESH[axis]
        count *= MESH[axis]
    return index, count


def shard(rank):
    """`num_shards` and `shard_id` of the dataset of a rank; ranks with one shard read the same."""
    index, count = _piece(rank, BY_ROWS)
    return {{"num_shards": count, "shard_id": index}}


def sliced(rank, arrays):
    """What a rank keeps of the arrays of its shard, one for each input."""
    out = []
    for array, (_, _, cuts) in zip(arrays, INPUTS.values()):
        for dim, axes in enumerate(cuts):
            if dim == 0 and BY_ROWS:
                continue
            index, count = _piece(rank, axes)
            array = np.split(array, count, axis=dim)[index]
        out.append(array)
    return out


def own_inputs(rank=0):
    """Inputs of zeros as one rank gets them."""
    out = []
    for dims, dtype, cuts in INPUTS.values():
        own = [size // _piece(rank, axes)[1] for size, axes in zip(dims, cuts)]
        out.append(ms.Tensor(np.zeros(own), getattr(ms, dtype)))
    return out


def predict_layout(network):
    """How MindSpore lays out the parameters for prediction; the front end alone is run.

    Set the mode up first, with `mindspore_script.py` and the strategies of `apply_mindspore.py`.
    """
    return ms.Model(network).infer_predict_layout(*own_inputs(), skip_backend_compile=True)


def train_layout(model, dataset):
    """How MindSpore lays out the parameters for training, before a checkpoint is loaded."""
    return model.infer_train_layout(dataset)


def load(network, checkpoints, strategy="strategy.ckpt"):
    """Load the checkpoints of all ranks of a training, each rank its part.

    Args:
        network: for prediction, with strategies.
        checkpoints: a file for each rank of the training, in their order.
        strategy: the strategy file of the training, beside this file.
    """
    layout = predict_layout(network)
    ms.load_distributed_checkpoint(network, checkpoints, layout, str(HERE / strategy))
    return layout
'''


def inference_module(plan: Plan) -> str:
    """Text of the file.

    Raises:
        ExportError: the plan has pipeline stages.
    """
    if not plan.pipeline.is_single:
        what = "the plan has pipeline stages, which datasets of ranks do not follow"
        fix = "plan the network for inference without --pipeline"
        raise ExportError(Violation(what, "--pipeline", fix))
    number = {name: place for place, (name, _, _) in enumerate(plan.mesh)}
    inputs = {
        name: (plan.graph.tensors[name].dims, plan.graph.tensors[name].dtype, _axes(own, number))
        for name, own in plan.input_layouts.items()
    }
    return _MODULE.format(
        model=re.sub(r"[^\w.-]", "_", plan.graph.name, flags=re.ASCII) or "the model",
        devices=plan.devices,
        mesh=tuple(size for _, size, _ in plan.mesh),
        inputs=table(inputs),
        rows=_rows([axes for _, _, axes in inputs.values()]),
    )


def losses(plan: Plan) -> tuple[str, ...]:
    """What the file does not say."""
    if plan.trains:
        return ("the plan is of a training step: MindSpore may lay out prediction otherwise",)
    return ()


def _axes(layout: NamedLayout, number: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(number[axis] for axis in dim) for dim in layout.dims)


def _rows(cuts: list[tuple[tuple[int, ...], ...]]) -> tuple[int, ...]:
    """Axes of the first dimension where all inputs have the same there."""
    found = {axes[0] if axes else () for axes in cuts}
    return found.pop() if len(found) == 1 else ()
