"""Filling in `use:` and `override:` of machine files: bundled parts, changed where said."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import data
from topology.errors import ClusterError, Violation, unknown_part
from topology.reading import plain_values

__all__ = ["bundled", "expanded", "merged"]

_SELF = ("schema_version", "name", "title", "note")
_NAMES = ("known_as", "aliases", "hardware", "usual")
"""What names a part and nothing else: a part that uses another has its own, or none."""
_MOST_NESTED = 8
"""Bundled parts that use bundled parts."""


def merged(base: object, override: object) -> object:
    """The base with what the override says: mappings key by key, all else as a whole.

    A number with its origin (`value:`) replaces the number that was there with its origin; `null`
    takes a key away.

    >>> merged({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": None}, "b": 4})
    {'a': {'x': 1}, 'b': 4}
    """
    if not isinstance(base, Mapping) or not isinstance(override, Mapping) or "value" in override:
        return override
    record = dict(base)
    for key, value in override.items():
        if value is None:
            record.pop(key, None)
        else:
            record[key] = merged(record.get(key), value)
    return record


def bundled(folder: str, name: str) -> dict[str, Any]:
    """The values of one bundled file, its own `use` filled in.

    Raises:
        ClusterError: there is none of this name.
    """
    return _bundled(folder, name, 0)


def _bundled(folder: str, name: str, depth: int) -> dict[str, Any]:
    known = data.names(folder)
    if name not in known:
        raise unknown_part(folder.removesuffix("s"), name, known)
    where = f"{folder}/{name}.yaml"
    return _filled(folder, plain_values(data.read_text(folder, f"{name}.yaml"), where), depth)


def _filled(folder: str, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """A part whose `use` is replaced by the bundled part of that name, with its override."""
    if "use" not in given:
        return dict(given)
    odd = [str(key) for key in given if key not in (*_SELF, *_NAMES, "use", "override")]
    override = given.get("override") or {}
    if odd or not isinstance(given["use"], str) or not isinstance(override, Mapping):
        raise ClusterError(
            f"beside use: {', '.join(odd)[:200]}"
            if odd
            else "use needs a name, override a mapping",
            "a part with use:",
            "put changes under override:",
        )
    if depth >= _MOST_NESTED:
        raise ClusterError(f"{given['use']!r} uses itself", "use:", "name another part")
    base = _bundled(folder, given["use"], depth + 1)
    own = {key: given[key] for key in (*_SELF, *_NAMES) if key in given}
    record = merged({key: base[key] for key in base if key not in _NAMES}, override)
    assert isinstance(record, dict)
    return record | own


def expanded(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Violation]]:
    """A cluster file with every `use` filled in, and what could not be."""
    faults: list[Violation] = []
    whole = _tried(faults, "the file", partial(_filled, "clusters", given, 0))
    if whole is None:
        return {}, faults
    for layer in ("chips", "servers"):
        parts = whole.get(layer)
        if isinstance(parts, Mapping):
            whole[layer] = {
                name: _own_part(layer, str(name), part, faults) for name, part in parts.items()
            }
    _bring_in_servers(whole, faults)
    return whole, faults


def _tried(
    faults: list[Violation], where: str, fill: Callable[[], dict[str, Any]]
) -> dict[str, Any] | None:
    try:
        return fill()
    except ClusterError as fault:
        faults.append(Violation("E_USE", where, f"{fault.what} ({fault.fix})"))
        return None


def _own_part(layer: str, name: str, part: object, faults: list[Violation]) -> object:
    """A chip or server of the file itself, named like its key."""
    if not isinstance(part, Mapping):
        return part
    own = {"name": name, **part}
    found = _tried(faults, f"{layer}.{name}", partial(_filled, layer, own, 0))
    return own if found is None else found


def _bring_in_servers(whole: dict[str, Any], faults: list[Violation]) -> None:
    """Add the bundled servers that the cluster uses and the file does not describe."""
    cluster = whole.get("cluster")
    entries = cluster.get("servers") if isinstance(cluster, Mapping) else None
    own = whole.get("servers", {})
    if not isinstance(entries, (list, tuple)) or not isinstance(own, Mapping):
        return
    servers = dict(own)
    for index, entry in enumerate(entries):
        name = entry.get("use") if isinstance(entry, Mapping) else None
        if isinstance(name, str) and name not in servers:
            where = f"cluster.servers.{index}.use"
            found = _tried(faults, where, partial(bundled, "servers", name))
            if found is not None:
                servers[name] = found
    whole["servers"] = servers
