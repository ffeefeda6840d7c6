"""What tracers leave behind and ONNX's exporters take away: shared by ways in.

Constants are folded, and what nobody reads is gone, before a graph gets here.
"""

from importers.clean_up.common import without_duplicates
from importers.clean_up.guards import with_plain_guards
from importers.clean_up.merged_rows import with_whole_products
from importers.clean_up.moves import with_single_moves
from ir.graph import OpGraph

__all__ = ["cleaned", "without_duplicates"]


def cleaned(graph: OpGraph) -> OpGraph:
    """The graph without what is computed twice or only moved to and fro.

    Products on merged rows are products on the rows as they are; a traced training step keeps its
    own, for the gradients of weights are sums over merged rows.
    """
    graph = without_duplicates(with_single_moves(graph))
    if graph.is_training_step:
        return graph
    return with_plain_guards(with_single_moves(with_whole_products(graph)))
