"""From the text of a machine file to a machine, with every fault of the file told at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from topology.checks import link_count, server_violations
from topology.chip_file import ChipFile
from topology.chips import chip_profile
from topology.cluster_checks import chip_ports, cluster_violations, machine_violations
from topology.cluster_file import ClusterFile
from topology.errors import ClusterError, MachineFileError, Violation
from topology.machine import Machine
from topology.quantities import Strict
from topology.reading import plain_values
from topology.server_file import ServerFile
from topology.uses import expanded
from topology.wiring import MOST_LINKS

__all__ = ["check_machine", "load_machine", "machine_of"]

_FIX = "compare with a file of data/clusters; `planner topology schema` prints the format"
_CODES = {
    "missing": "E_MISSING",
    "extra_forbidden": "E_UNKNOWN_KEY",
    "unit": "E_UNIT",
    "generator": "E_GENERATOR",
    "fabric": "E_FABRIC",
}
_Part = TypeVar("_Part", bound=Strict)


def load_machine(text: str, where: str) -> Machine:
    """The machine that a text describes.

    Args:
        text: YAML or JSON; docs/topology.md tells the format.
        where: name of the text for errors, such as its file name.

    Raises:
        MachineFileError: with all faults of the file.
        ClusterError: the text is neither YAML nor JSON, or too large.
    """
    return machine_of(plain_values(text, where), where)


def machine_of(given: Mapping[str, Any], where: str) -> Machine:
    """The machine that these plain values describe."""
    machine, found = _examined(given)
    errors = [each for each in found if each.code.startswith("E_")]
    if machine is None or errors:
        raise MachineFileError(errors, where, _FIX)
    return machine


def check_machine(text: str, where: str) -> tuple[Machine | None, list[Violation]]:
    """The machine if there is one, and all that is wrong or odd, warnings too.

    Raises:
        ClusterError: the text is neither YAML nor JSON, or too large.
    """
    machine, found = _examined(plain_values(text, where))
    if machine is not None and not found:
        found = machine_violations(machine)
    return machine, found


def _examined(given: Mapping[str, Any]) -> tuple[Machine | None, list[Violation]]:
    """The machine, if its file has no faults, and the faults."""
    if given.get("schema_version") == 1 or "tiers" in given:
        old = (
            "version 1 of the format described tiers alone; docs/topology.md tells the present one"
        )
        return None, [Violation("E_VERSION", "schema_version", old)]
    whole, found = expanded(given)
    file = _validated(ClusterFile, whole, "", found) if whole else None
    servers, chips = _parts(file, whole)
    total = sum(link_count(e, server) for server in servers.values() for e in server.links.values())
    if total > MOST_LINKS:
        what = f"{total} links; the servers of a file have at most {MOST_LINKS}"
        return None, [*found, Violation("E_SIZE", "servers", what)]
    ports: dict[str, Mapping[str, float]] = {}
    profiles: dict[str, ChipFile] = {}
    for name, server in servers.items():
        place = f"servers.{name}"
        try:
            profiles[name] = _chip(server, chips)
        except ClusterError as fault:
            found.append(Violation("E_CHIP", f"{place}.chip", f"{fault.what} ({fault.fix})"))
        ports[name] = chip_ports(profiles[name]) if name in profiles else {}
        found += server_violations(server, ports[name], place)
    if file is not None:
        found += cluster_violations(file)
    if file is None or found:
        return None, found
    return Machine(file, profiles), []


def _parts(
    file: ClusterFile | None, whole: Mapping[str, Any]
) -> tuple[dict[str, ServerFile], dict[str, ChipFile]]:
    """Servers and chips of a file; of a broken one those that are sound by themselves."""
    if file is not None:
        return file.servers, file.chips
    servers, chips = whole.get("servers"), whole.get("chips")
    return dict(_sound(ServerFile, servers)), dict(_sound(ChipFile, chips))


def _sound(model: type[_Part], given: object) -> Iterator[tuple[str, _Part]]:
    for name, part in given.items() if isinstance(given, Mapping) else ():
        found = _validated(model, part, "", [])
        if found is not None:
            yield str(name), found


def _chip(server: ServerFile, chips: Mapping[str, ChipFile]) -> ChipFile:
    if isinstance(server.chip, ChipFile):
        return server.chip
    return chips[server.chip] if server.chip in chips else chip_profile(server.chip)


def _validated(
    model: type[_Part], given: object, where: str, found: list[Violation]
) -> _Part | None:
    try:
        return model.model_validate(given)
    except ValidationError as fault:
        found += _violations(fault.errors(include_url=False, include_context=False), where)
        return None


def _violations(errors: Sequence[ErrorDetails], where: str) -> Iterator[Violation]:
    for each in errors:
        path = ".".join([*([where] if where else []), *(str(p)[:80] for p in each["loc"])])
        known = "no such key here" if each["type"] == "extra_forbidden" else None
        message = known or each["msg"].splitlines()[0].removeprefix("Value error, ")[:400]
        yield Violation(_CODES.get(each["type"], "E_VALUE"), path or "the file", message)
