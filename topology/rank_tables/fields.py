"""Fields of a JSON record, checked one by one."""

from collections.abc import Collection, Iterator, Mapping

from topology.rank_tables.findings import Findings
from topology.rank_tables.records import shown

__all__ = ["MOST_ENTRIES", "decimal", "device_number", "entries", "others", "rank_number"]
__all__ += ["text_of"]

Record = Mapping[str, object]
MOST_ENTRIES = 65_536
"""Of any list: as many ranks as the newest version allows."""

_MOST_DIGITS = 10
"""Of 2**32 - 1, the largest number that HCCL reads."""


def decimal(value: object) -> int | None:
    """The number in a string of decimal digits; None for anything else.

    >>> decimal("12"), decimal("-1"), decimal(" 1"), decimal(1), decimal("")
    (12, None, None, None, None)
    """
    if not isinstance(value, str) or len(value) > _MOST_DIGITS:
        return None
    return int(value) if value.isascii() and value.isdigit() else None


def device_number(record: Record, where: str, findings: Findings) -> int | None:
    """The number of a card; one that is no string of digits is reported."""
    return _digits(record, "device_id", "E_DEVICE_ID_RANGE", where, findings)


def rank_number(record: Record, where: str, findings: Findings) -> int | None:
    """The rank of a card; one that is no string of digits is reported."""
    return _digits(record, "rank_id", "E_RANK_FORMAT", where, findings)


def _digits(record: Record, key: str, code: str, where: str, findings: Findings) -> int | None:
    number = decimal(record.get(key))
    if number is None:
        findings.add(code, where, f"{key} {shown(record.get(key))} is no string of digits")
    return number


def text_of(record: Record, key: str) -> str:
    """The string of this field, empty if there is none."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def others(record: Record, known: Collection[str]) -> dict[str, object]:
    """The fields with other names, as they are."""
    return {key: value for key, value in record.items() if key not in known}


def entries(record: Record, key: str, where: str, findings: Findings) -> Iterator[Record]:
    """The objects in a list that must not be empty; what is no object is reported and left out."""
    value = record.get(key)
    if value is None or value == []:
        findings.add("E_EMPTY", where, f"{key} is {'empty' if value == [] else 'missing'}")
        return
    if not isinstance(value, list):
        findings.add("E_FIELD", where, f"{key} is no list but {shown(value)}")
        return
    if len(value) > MOST_ENTRIES:
        findings.add("E_FIELD", where, f"{key} has {len(value)} entries, at most {MOST_ENTRIES}")
        return
    for entry in value:
        if isinstance(entry, dict):
            yield entry
        else:
            findings.add("E_FIELD", where, f"an entry of {key} is no object but {shown(entry)}")
