"""The table of StableHLO's operations: what each of them is in operators of the catalogue."""

from __future__ import annotations

from importers.stablehlo import (  # noqa: F401  each enters its operations when it is read
    indexing,
    moves,
    pointwise,
    products,
    reductions,
)
from importers.traced.operations import FrontEnd, table

TABLE = table(FrontEnd.STABLEHLO)
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
