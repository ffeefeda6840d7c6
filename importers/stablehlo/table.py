"""The table of StableHLO's operations: what each of them is in operators of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.stablehlo.call import Converter
from importers.stablehlo.indexing import INDEXING
from importers.stablehlo.moves import MOVES
from importers.stablehlo.pointwise import POINTWISE
from importers.stablehlo.products import PRODUCTS
from importers.stablehlo.reductions import REDUCTIONS

TABLE: Mapping[str, Converter] = MappingProxyType(
    {**POINTWISE, **MOVES, **REDUCTIONS, **PRODUCTS, **INDEXING}
)
"""By name, with the dialect."""
CONTROL = frozenset(
    {
        "call", "func.call", "stablehlo.while", "stablehlo.case", "stablehlo.if",
        "stablehlo.composite", "stablehlo.custom_call", "return", "stablehlo.return",
    }
)  # fmt: skip
"""What the walk through a program does itself."""
NOTHING = frozenset(
    {
        "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
        "xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape",
    }
)  # fmt: skip
"""Foreign functions that hand their operands on."""
