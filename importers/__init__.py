"""Ways in: model files become operator graphs."""

from importers.errors import ModelError

__all__ = ["ModelError"]
