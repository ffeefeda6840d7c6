"""Operator strategies of a network in pipeline stages.

MindSpore reads the file before it cuts the network: every rank has the whole network in
`PipelineCell`, once for each micro-batch. What lies in a cell with a stage of its own has one name
for all micro-batches, the others count on: of n operators of a kind in a scope, number j of
micro-batch k is `-op<k n + j>`. Names that a network does not have are passed over, so all stand in
the file. The cell's own operators are the slices of the inputs and the sums of the losses.

Source: what MindSpore 2.10.0 saves for networks in two stages with two and four micro-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from exporters.errors import ExportError
from exporters.mindspore.records import StrategyItem
from ir.violations import Violation

Cuts = tuple[int, ...]
_MARK = "-op"


def cell_around(scope: str) -> str:
    """The path of `PipelineCell`, by that of the network inside of it.

    Raises:
        ExportError: the network is not told to be inside of one.
    """
    outer, _, inner = scope.strip("/").rpartition("/")
    if not outer or not inner:
        what = "a network in stages is compiled within PipelineCell"
        fix = "such as --set scope=network-PipelineCell/network-Net; of one stage GradAccumulation"
        raise ExportError(Violation(what, f"--set scope={scope}", fix))
    return outer


def repeated(items: Sequence[StrategyItem], micro_batches: int) -> Iterator[StrategyItem]:
    """Every operator under the names that it has for all micro-batches."""
    count = Counter(_scope(item.key) for item in items)
    for batch in range(micro_batches):
        for item in items:
            scope, number = _scope(item.key), _number(item.key)
            if number is None and batch:
                continue
            place = "" if number is None else f"{_MARK}{number + batch * count[scope]}"
            yield StrategyItem(f"{scope}{place}", item.stage, item.cuts)


def own_operators(
    cell: str, inputs: Iterable[Cuts], result: int, micro_batches: int
) -> Iterator[StrategyItem]:
    """The operators of `PipelineCell`.

    Args:
        cell: its path, such as `network-PipelineCell`.
        inputs: how each input arrives. Rows are sliced, and what is sliced is not cut.
        result: dimensions of what the network makes, which is added up: none of a loss.
        micro_batches: that it makes.
    """
    for place, cuts in enumerate(inputs):
        for batch in range(micro_batches):
            name = f"Default/{cell}/micro_inputs-CellList/{batch}-_MicroBatch/StridedSlice"
            yield StrategyItem(f"{name}{_MARK}{place}", 0, ((1, *cuts[1:]),))
    for place in range(micro_batches - 1):
        yield StrategyItem(f"Default/{cell}/Add{_MARK}{place}", 0, ((1,) * result, (1,) * result))


def _scope(key: str) -> str:
    return key if _number(key) is None else key.rpartition(_MARK)[0]


def _number(key: str) -> int | None:
    text = key.rpartition(_MARK)[2]
    return int(text) if text.isdecimal() else None
