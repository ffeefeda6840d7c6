"""Which layers of a conventional layout are where: stages, their chunks and both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from costmodel.training.sizes import lacking_layers, mtp_layers
from costmodel.training.stage_split import ends_as_layers
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from costmodel.training.records import TrainingRun


class Place(NamedTuple):
    """What one chunk of a stage holds."""

    layers: float
    """A fraction stands for a mean over devices."""
    embedding: bool
    head: bool
    predicting: float = 0.0
    """Mean layers behind its others that predict further tokens."""

    @property
    def all_layers(self) -> float:
        """Mean layers that a micro-batch passes here."""
        return self.layers + self.predicting


def places_of(run: TrainingRun, *, bidirectional: bool = False) -> list[list[Place]]:
    """The chunks of every stage.

    Args:
        run: what is laid out.
        bidirectional: chunk 1 of a stage holds what chunk 0 of the opposite stage does.
    """
    layout = run.layout
    last = (layout.pp - 1, layout.vpp - 1)
    table = RunTable.of([run])
    even = ends_as_layers(table.layers, table.pp, table.vpp, table.further)
    apart = bool(even[0]) and not layout.stage_layers
    lacking, predicting = float(lacking_layers(table)[0]), float(mtp_layers(table)[0])
    places = []
    for stage, count in enumerate(stage_layers(run)):
        own = []
        for chunk in range(layout.vpp):
            embedding, head = (stage, chunk) == (0, 0), (stage, chunk) == last
            layers = count / layout.vpp
            if apart:
                layers = (run.model.layers + 2) / (layout.pp * layout.vpp) - embedding - head
            elif lacking and stage == last[0]:
                layers = (count + lacking) / layout.vpp - head * lacking
            own.append(Place(layers, embedding, head, head * predicting))
        places.append(own)
    if bidirectional:
        return [[own[0], other[0]] for own, other in zip(places, places[::-1], strict=True)]
    return places


def stage_layers(run: TrainingRun) -> list[float]:
    """Layers of each stage, as the estimate splits them: what is left over is in the middle."""
    layout = run.layout
    if layout.stage_layers:
        return [float(n) for n in layout.stage_layers]
    if layout.pp == 1:
        return [float(run.model.layers)]
    table = RunTable.of([run])
    first, last = float(table.first_layers[0]), float(table.last_layers[0])
    middle = run.model.layers - first - last
    low, more = divmod(middle, max(layout.pp - 2, 1))
    return [first, *(low + (i < more) for i in range(layout.pp - 2)), last]
