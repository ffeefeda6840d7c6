"""A step recorded once as two graphs of torch calls, which later steps replay without Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import default_partition

from executors.dtensor.buckets import MESSAGES, bucketed, gathers_bucketed
from executors.dtensor.scheduling import computed_again, gathered_ahead, waiting_late
from executors.judgement import Traffic, summed

__all__ = ["Recording"]

_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shard_dim_alltoall")
_OURS = {"shard_dim_alltoall": "all_to_all"}


@dataclass(slots=True)
class Recording:
    """A step that the first call records; later calls replay it."""

    step: Callable[..., tuple[Any, ...]]
    parameters: int
    """The first so many operands are parameters."""
    remade: Collection[str]
    """Operators whose results the backward pass computes again."""
    graphs: list[Any] = field(default_factory=list)
    """Forward, and backward where gradients are asked for."""
    _run: Any = None

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        if self._run is None:
            self._run = aot_function(
                self.step, fw_compiler=self._kept, bw_compiler=self._kept,
                partition_fn=self._parted,
            )  # fmt: skip
        found: tuple[Any, ...] = self._run(*tensors)
        return found

    def _parted(self, joint: Any, operands: Any, **rest: Any) -> Any:
        """Forward and backward graph; what is not kept in between is made again."""
        computed_again(joint.graph, self.parameters, self.remade)
        joint.recompile()
        return default_partition(joint, operands, **rest)

    def _kept(self, graph: Any, _: Any) -> Any:
        waiting_late(graph.graph)
        bucketed(graph.graph)
        gathers_bucketed(graph.graph)
        gathered_ahead(graph.graph)
        graph.graph.lint()
        graph.recompile()
        self.graphs.append(graph)
        return make_boxed_func(graph)

    def traffic(self) -> tuple[Traffic, ...]:
        """The messages of both graphs, those of one kind and group size together; what travels in a
        bucket is counted one by one, as in the plan.
        """
        return summed(each for graph in self.graphs for each in _sent(graph.graph))


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
