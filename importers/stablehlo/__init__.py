"""JAX programs: StableHLO text, read as data; JAX is not needed."""

from importers.stablehlo.reading import constant_values, import_stablehlo, read_program

__all__ = ["constant_values", "import_stablehlo", "read_program"]
