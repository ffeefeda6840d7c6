"""The facts: chips, clusters and their sources. No code but this accessor.

Data files are YAML; every number in them carries its unit, its source (a key of `sources.yaml`)
and how far to trust it.
"""

from functools import cache
from importlib.resources import files as _package_files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

__all__ = ["calibration", "files", "names", "read_text", "read_yaml", "yaml_values"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # reads forty times faster


def files(*parts: str) -> Traversable:
    """The bundled file or folder at the given path below this package."""
    return _package_files("data").joinpath(*parts)


def read_text(*parts: str) -> str:
    """The text of one bundled file, such as `read_text("chips", "a100_sxm_80g.yaml")`."""
    return files(*parts).read_text(encoding="utf-8")


@cache
def read_yaml(*parts: str) -> dict[str, Any]:
    """The mapping in one bundled file, read once; nobody changes it."""
    found: dict[str, Any] = yaml_values(read_text(*parts))
    return found


def yaml_values(text: str) -> Any:
    """The values in a YAML text of ours: in a stranger's, deep nesting would end the process."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  a safe one


def calibration(name: str) -> dict[str, Any]:
    """The mapping in a file of `calibration`, such as `calibration("operators")`."""
    return read_yaml("calibration", f"{name}.yaml")


def names(folder: str) -> tuple[str, ...]:
    """The names (file names without `.yaml`) in one folder, in alphabetical order."""
    entries = (entry.name for entry in files(folder).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))
