"""The bundled chip profiles."""

from difflib import get_close_matches

import data
from topology.chip_file import ChipFile
from topology.errors import ClusterError
from topology.uses import bundled

__all__ = ["chip_names", "chip_profile"]


def chip_names() -> tuple[str, ...]:
    """Names of the bundled chip profiles."""
    return data.names("chips")


def chip_profile(name: str) -> ChipFile:
    """The bundled profile of this name, or of the maker's name such as `Ascend910B3`.

    Raises:
        ClusterError: there is none.
    """
    known = chip_names()
    if name in known:
        return _profile(name)
    for profile in map(_profile, known):
        if name.lower() in map(str.lower, profile.aliases):
            return profile
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ClusterError(
        f"unknown chip {name[:80]!r}", "the chip name", f"{hint}known: {', '.join(known)}"
    )


def is_chip(name: str) -> bool:
    """Whether a bundled profile has this name."""
    known = chip_names()
    return name in known or any(
        name.lower() in map(str.lower, _profile(each).aliases) for each in known
    )


def _profile(name: str) -> ChipFile:
    return ChipFile.model_validate(bundled("chips", name))
