"""PyTorch programs: `.pt2` archives and FX graphs as JSON, read as data."""

from importers.torch_export.reading import constant_values, import_torch, read_program

__all__ = ["constant_values", "import_torch", "read_program"]
