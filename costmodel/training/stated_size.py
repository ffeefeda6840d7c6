"""Whether the sizes of a run make the model, and the ranks that its name and its row say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from costmodel.training.sizes import expert_parts, model_parameters, wanted_expert_parts
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.records import TrainingRun

__all__ = ["expert_remarks", "says_experts", "size_remarks"]

_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}
_APART = 1.5
"""Factor from which on counts do not mean the same model: tables that share parameters with the
head, or count without them, differ by less."""

_EXPERTS = r"moe(?![a-z])|[0-9]x[0-9.]+b(?![a-z])|[0-9]b[-_ ]a[0-9.]+b(?![a-z])"
"""Of names such as `OLMoE`, `Mixtral-8x7B` and `Qwen3-30B-A3B`."""


def says_experts(name: str) -> bool:
    """Whether a model's name says that it has routed experts."""
    return re.search(_EXPERTS, name.lower()) is not None


def size_remarks(params: str, run: TrainingRun) -> Iterator[str]:
    """A sentence if the stated number of parameters, such as `671B-A37B`, is far from the run's."""
    found = re.match(r"([0-9]+(?:\.[0-9]+)?) ?([mbt])(?![a-z])", params.strip().lower())
    if not found or not float(found.group(1)):
        return
    stated = float(found.group(1)) * _UNITS[found.group(2)]
    count = float(model_parameters(RunTable.of([run]))[0])
    if not stated / _APART <= count <= stated * _APART:
        yield f"the sizes make {count / 1e9:.3g}B parameters, column 'params' says {params[:40]}"


def expert_remarks(run: TrainingRun) -> Iterator[str]:
    """A sentence if experts cannot be split as the layout says or its software does of itself."""
    layout, table = run.layout, RunTable.of([run])
    parts, wanted = int(expert_parts(table)[0]), int(wanted_expert_parts(table)[0])
    if run.model.experts and parts != wanted:
        devices = layout.tp * layout.cp * layout.dp
        yield (
            f"experts over etp={wanted} x ep={layout.ep} ranks are more than the {devices} devices "
            f"of a stage; they are priced with etp={parts}"
        )
