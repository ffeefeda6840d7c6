"""What the operations of traced programs are in operators of ONNX, one family per file.

Each function is written once, for all front ends, and says what each of them calls it.
"""

from importers.traced.operations import (  # noqa: F401  each family enters its calls when it is read
    activations,
    attention,
    backward,
    catalogued,
    constants,
    images,
    indexing,
    losses,
    moves,
    norms,
    pointwise,
    products,
    reductions,
    sampling,
    slices,
)
from importers.traced.table import FrontEnd, table

__all__ = ["FrontEnd", "table"]
