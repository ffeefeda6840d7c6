"""The bundled chip profiles."""

import data
from topology.chip_file import ChipFile
from topology.errors import unknown_part
from topology.uses import bundled

__all__ = ["chip_names", "chip_profile", "is_chip"]


def chip_names() -> tuple[str, ...]:
    """Names of the bundled chip profiles."""
    return data.names("chips")


def chip_profile(name: str) -> ChipFile:
    """The bundled profile of this name, or of the maker's name such as `Ascend910B3`.

    Raises:
        ClusterError: there is none.
    """
    found = _found(name)
    if found is None:
        raise unknown_part("chip", name, chip_names())
    return found


def is_chip(name: str) -> bool:
    """Whether a bundled profile has this name."""
    return _found(name) is not None


def _found(name: str) -> ChipFile | None:
    if name in chip_names():
        return _profile(name)
    profiles = map(_profile, chip_names())
    return next((p for p in profiles if name.lower() in map(str.lower, p.aliases)), None)


def _profile(name: str) -> ChipFile:
    return ChipFile.model_validate(bundled("chips", name))
