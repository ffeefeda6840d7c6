"""Another batch for a graph that was exported with a fixed one.

The batch is followed from dimension 0 of the inputs: through the sharding rules, of which it is a
factor, and through what moves elements (`ir.batch_moves`). Dimensions that hold it are scaled, and
so are the attributes that tell sizes. Where an operator can be read in several ways, the likeliest
reading counts that the sizes of the rest of the model do not contradict. Two that fit are an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ir.batch_following import BatchError, ContradictionError, Follower
from ir.graph import OpGraph

__all__ = ["BatchError", "batch_dims", "find_batch", "with_batch"]

_MOST_TRIALS = 64
"""Combinations of readings that are tried."""


def find_batch(graph: OpGraph) -> int:
    """The batch as exported: the size that dimension 0 has in most inputs, the first of them if
    several tie; 0 without inputs.
    """
    sizes = [graph.tensors[n].dims[0] for n in graph.inputs if graph.tensors[n].dims]
    return Counter(sizes).most_common(1)[0][0] if sizes else 0


def with_batch(graph: OpGraph, batch: int) -> OpGraph:
    """The graph with another batch.

    Args:
        graph: as imported, before normalisation.
        batch: the new size of dimension 0 of the inputs.

    Raises:
        BatchError: an operator loses the batch, has none to follow, or can be read in two ways that
            differ; the message names it.
    """
    if batch < 1:
        raise BatchError(f"the batch is {batch}; it must be positive")
    old = _known_batch(graph)
    if old == batch:
        return replace(graph, batch=batch)
    if graph.is_training_step:
        raise BatchError(
            "a traced training step has its batch in its constants; "
            "trace it again with the batch wanted"
        )
    return _Trials(graph, old, batch).only().scaled(batch)


def batch_dims(graph: OpGraph) -> Mapping[str, int]:
    """Dimension whose outermost factor is the batch, for every tensor that depends on an input.

    Raises:
        BatchError: an operator loses the batch; the message names it.
    """
    found = _Trials(graph, _known_batch(graph)).first()
    return {name: place.dim for name, place in found.where.items() if place.outer == 1}


def _known_batch(graph: OpGraph) -> int:
    found = find_batch(graph)
    if found == 0:
        raise BatchError("the model has no input with a dimension 0 to take the batch from")
    return found


@dataclass(slots=True)
class _Trials:
    """Readings of a graph, tried one after the other, the likeliest first."""

    graph: OpGraph
    old: int
    batch: int = 0
    """The new one, where the graph has to have a form with it."""
    error: BatchError | None = None
    """Why the likeliest reading cannot be meant."""

    def first(self) -> Follower:
        """The likeliest reading that no size contradicts.

        Raises:
            BatchError: there is none, or the batch cannot be followed in it.
        """
        for widely in (False, True):
            for found in self._possible(widely=widely):
                if found.error is not None:
                    raise found.error
                return found
        assert self.error is not None
        raise self.error

    def only(self) -> Follower:
        """As `first`, where no other reading fits too.

        Raises:
            BatchError: several fit, and they differ.
        """
        best = self.first()
        if self.old > 1 and (best.trail or best.is_doubtful):
            for other in self._possible(widely=best.widely or best.is_doubtful):
                if other.error is None and other.dims() != best.dims():
                    raise self._ambiguous(best, other)
        return best

    def _possible(self, *, widely: bool) -> Iterator[Follower]:
        """Readings that no size contradicts, each with the error that ended it, if any."""
        waiting: list[tuple[int, ...]] = [()]
        for _ in range(_MOST_TRIALS):
            if not waiting:
                return
            chosen = waiting.pop()
            found, contradiction = self._scalable(self._walked(chosen, widely=widely))
            self.error = self.error or contradiction
            for step in range(len(chosen), len(found.trail)):
                taken = tuple(choice for _, choice, _ in found.trail[:step])
                waiting += [(*taken, n) for n in range(found.trail[step][2] - 1, 0, -1)]
            if contradiction is None:
                yield found

    def _walked(self, chosen: tuple[int, ...], *, widely: bool) -> Follower:
        """A walk that takes some readings; the same for every new batch."""
        known, key = self.graph.once("walks of the batch", _none_yet), (self.old, chosen, widely)
        if key not in known:
            known[key] = Follower(self.graph, self.old, chosen, widely)
            try:
                known[key].run()
            except BatchError as error:
                known[key].error = error.with_traceback(None)
        return known[key]

    def _scalable(self, found: Follower) -> tuple[Follower, ContradictionError | None]:
        """A walk with the error that ended it or its scaling, and why it cannot be meant."""
        if found.error is None and self.batch:
            try:
                found.scaled(self.batch)
            except BatchError as error:
                found = replace(found, error=error)
        return found, found.error if isinstance(found.error, ContradictionError) else None

    def _ambiguous(self, one: Follower, other: Follower) -> BatchError:
        pairs = zip(one.trail, other.trail, strict=False)
        op = next((a[0] for a, b in pairs if a[1] != b[1]), other.trail[-1][0])
        return BatchError(
            f"{op.name} ({op.kind}) can be read in two ways: "
            f"which of its sizes grow with the batch of {self.old} cannot be told\n"
            f"  at:  {op.scope or 'the top of the model'}\n"
            "  fix: export the model with the batch wanted, or with a batch that no other size has"
        )


def _none_yet(_: OpGraph) -> dict[tuple[int, tuple[int, ...], bool], Follower]:
    return {}
