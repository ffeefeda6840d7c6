"""A step recorded once as two graphs of torch calls, which later steps replay without Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import default_partition
from torch.fx.graph import _BoxedCodeGen

from executors.dtensor.buckets import MESSAGES, bucketed, gathers_bucketed
from executors.dtensor.rewrites import biases_in_products, lookups_added_in_place
from executors.dtensor.scheduling import (
    computed_again,
    gathered_ahead,
    parameters_marked,
    unread_dropped,
    waiting_late,
)
from executors.judgement import Traffic, summed

__all__ = ["Recording"]

_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shard_dim_alltoall")
_OURS = {"shard_dim_alltoall": "all_to_all"}


@dataclass(frozen=True, slots=True)
class _Recorded:
    run: Callable[..., tuple[Any, ...]]
    graphs: list[Any]
    """Those that the first call made of it, as they are replayed."""


@dataclass(slots=True)
class Recording:
    """A step that the first call records; later calls replay it.

    Calls that want other gradients, as an evaluation before or between steps, are recorded apart.
    """

    step: Callable[..., tuple[Any, ...]]
    gathered_again: Sequence[bool]
    """Of the first operands, which are parameters, whether the backward pass gathers them again."""
    remade: Collection[str]
    """Operators whose results the backward pass computes again."""
    _recorded: dict[tuple[bool, ...], _Recorded] = field(default_factory=dict)
    """By which operands have gradients."""

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        wanted = tuple(torch.is_grad_enabled() and t.requires_grad for t in tensors)
        known = self._recorded.get(wanted)
        if known is None:
            graphs: list[Any] = []
            kept = partial(_kept, graphs)
            run = aot_function(
                self.step,
                fw_compiler=kept,
                bw_compiler=kept,
                partition_fn=self._parted,
                inference_compiler=partial(self._evaluated, kept),
            )
            known = self._recorded[wanted] = _Recorded(run, graphs)
        found: tuple[Any, ...] = known.run(*tensors)
        return found

    @property
    def graphs(self) -> list[Any]:
        """Forward, and backward where gradients were asked for: of the most of them."""
        most = max(self._recorded, key=sum, default=None)
        return [] if most is None else self._recorded[most].graphs

    def _parted(self, joint: Any, operands: Any, **rest: Any) -> Any:
        """Forward and backward graph; what is not kept in between is made again."""
        parameters_marked(joint.graph, self.gathered_again)
        computed_again(joint.graph, self.remade)
        joint.recompile()
        return default_partition(joint, operands, **rest)

    def _evaluated(self, kept: Callable[[Any, Any], Any], graph: Any, operands: Any) -> Any:
        """The only graph of a step without gradients."""
        parameters_marked(graph.graph, self.gathered_again)
        return kept(graph, operands)

    def traffic(self) -> tuple[Traffic, ...]:
        """The messages of both graphs, those of one kind and group size together; what travels in a
        bucket is counted one by one, as in the plan.
        """
        return summed(each for graph in self.graphs for each in _sent(graph.graph))


def _kept(graphs: list[Any], graph: Any, _: Any) -> Callable[[list[Any]], Any]:
    """A graph of one pass with its messages in buckets and in time, which joins `graphs`."""
    unread_dropped(graph.graph)
    biases_in_products(graph.graph)
    lookups_added_in_place(graph.graph)
    unread_dropped(graph.graph)
    waiting_late(graph.graph)
    bucketed(graph.graph)
    gathers_bucketed(graph.graph)
    gathered_ahead(graph.graph)
    graph.graph.lint()
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()
    graphs.append(graph)

    def run(operands: list[Any]) -> Any:
        """Takes the operands out of the list: each is freed where it was read last."""
        return graph.forward(operands)

    run._boxed_call = True  # type: ignore[attr-defined]  # noqa: SLF001
    return run


def _sent(graph: Any) -> Iterator[Traffic]:
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "")
        kind = next((k for k in _KINDS if name.startswith(k)), None)
        if node.op != "call_function" or kind is None:
            continue
        if MESSAGES in node.meta:
            sizes = node.meta[MESSAGES]
            yield Traffic(kind, _group_size(node), float(sum(sizes)), len(sizes))
            continue
        measured = node if kind == "all_gather" else node.args[0]
        value = measured.meta["val"]
        size = _group_size(node)
        yield Traffic(_OURS.get(kind, kind), size, float(value.numel() * value.element_size()), 1)


def _group_size(node: Any) -> int:
    from torch.distributed.distributed_c10d import _resolve_process_group  # noqa: PLC0415

    return int(_resolve_process_group(node.args[-1]).size())
