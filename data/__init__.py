"""The facts: chips, clusters and their sources. No code but this accessor.

Data files are YAML; every number in them carries its unit, its source (a key of `sources.yaml`)
and how far to trust it.
"""

from importlib.resources import files as _package_files
from importlib.resources.abc import Traversable

__all__ = ["files", "names", "read_text"]


def files(*parts: str) -> Traversable:
    """The bundled file or folder at the given path below this package."""
    return _package_files("data").joinpath(*parts)


def read_text(*parts: str) -> str:
    """The text of one bundled file, such as `read_text("chips", "a100_sxm_80g.yaml")`."""
    return files(*parts).read_text(encoding="utf-8")


def names(folder: str) -> tuple[str, ...]:
    """The names (file names without `.yaml`) in one folder, in alphabetical order."""
    entries = (entry.name for entry in files(folder).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))
