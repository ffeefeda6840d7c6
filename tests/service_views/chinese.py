"""The Chinese of the page, read from its sources and applied as the page applies it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

SOURCES = Path(str(resources.files("service"))) / "web" / "src"
_ENTRY = re.compile(r'\["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\]')
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)"')
_HOLE = re.compile(r"\{w?\}")
_OPTIONS = re.compile(r"  fix: --[^ ]+ [^ ]+( --[^ ]+ [^ ]+)*")
_HEADS = ("  at:  ", "  fix: ", "- ")


@cache
def words() -> dict[str, str]:
    """Texts of the page itself."""
    found = _WORD.findall((SOURCES / "zh.ts").read_text(encoding="utf-8"))
    return {json.loads(f'"{english}"'): chinese for english, chinese in found}


@cache
def sentences() -> list[tuple[str, str]]:
    """Patterns of the service's sentences with their Chinese, those with most own words first."""
    found = [
        (json.loads(f'"{english}"'), json.loads(f'"{chinese}"'))
        for source in sorted(SOURCES.glob("said_*.ts"))
        for english, chinese in _ENTRY.findall(source.read_text(encoding="utf-8"))
    ]
    return sorted(found, key=lambda row: -len(_HOLE.sub("", row[0])))


@cache
def _patterns() -> list[tuple[re.Pattern[str], list[bool], str]]:
    return [
        (
            re.compile("(.+?)".join(map(re.escape, _HOLE.split(english)))),
            [hole == "{w}" for hole in _HOLE.findall(english)],
            chinese,
        )
        for english, chinese in sentences()
    ]


def without_chinese(text: str) -> list[str]:
    """Lines of a text of the service that have no Chinese; empty where all have."""
    return [line for line in text.splitlines() if line.strip() and not _is_known(line)]


def chinese_of(line: str, *, whole: bool = True) -> str | None:
    """The Chinese of a line.

    Args:
        line: of a text of the service.
        whole: whether words that are filled in must have Chinese too.
    """
    for head in _HEADS:
        line = line.removeprefix(head)
    return _chinese(line, whole=whole)


def _is_known(line: str) -> bool:
    """Options, files and fields keep their names."""
    is_neutral = line.startswith("  at:  ") or _OPTIONS.fullmatch(line) is not None
    return is_neutral or chinese_of(line) is not None or _are_faults(line)


def _chinese(text: str, *, whole: bool = True) -> str | None:
    """The Chinese of a sentence, if all its words have some."""
    if text in words():
        return words()[text]
    for pattern, is_word, chinese in _patterns():
        found = pattern.fullmatch(text)
        if found is None:
            continue
        parts = [
            _listed(part) or (None if whole else part) if word else part
            for part, word in zip(found.groups(), is_word, strict=True)
        ]
        if None in parts:
            return None
        return _filled(chinese, [str(part) for part in parts])
    return None


def _filled(chinese: str, parts: Sequence[str]) -> str:
    return re.sub(r"\{(\d)\}", lambda hole: parts[int(hole[1]) - 1], chinese)


def _listed(text: str) -> str | None:
    whole = _chinese(text)
    if whole is not None:
        return whole
    found = [_cause(part) for part in text.split(", ")]
    return None if None in found else "、".join(map(str, found))


def _cause(text: str) -> str | None:
    kind, inside, _ = text.partition(" in ")
    word = words().get(kind.replace("_", "-"))
    return word if inside and word else _chinese(text)


def _are_faults(line: str) -> bool:
    parts = [re.fullmatch(r"(\S+): (.+)", part) for part in line.split("; ")]
    return all(part is not None and _chinese(part[2]) is not None for part in parts)


def cause_is_known(cause: str) -> bool:
    """Whether a cause of time or memory has a Chinese name."""
    kind = cause.partition(" in ")[0]
    return kind.replace("_", "-") in words() or kind in words()


def untold(part: Mapping[str, Any]) -> list[str]:
    """Words of a part of the report that have no Chinese; names and numbers need none."""
    found = [part["title"], *part.get("after", ()), *part.get("lines", ())]
    named = _TENSOR if part["title"] in {"Operands", "Results"} else _LETTER
    found = [text for text in found if not named.fullmatch(text)]
    for at, (heading, unit) in enumerate(part.get("columns", ())):
        found.append(heading)
        if unit == "name":
            continue
        found += [row[at] for row in part["rows"] if unit != "code"]
    return [text for text in found if _WORDS.search(text) and not _is_told(text.strip())]


def _is_told(text: str) -> bool:
    return not without_chinese(text) or all(map(_chinese, text.split(", ")))


_TENSOR = re.compile(r"\S+ [\dx]+ \w+: (.+ of [\dx]+|\w+)")
"""A tensor with dims, element type, layout and shard."""
_LETTER = re.compile(r"[A-Z]: \S.* -> \S.*|[AB]: \S+|[A-Z]\w+ \S*[_/]\S*")
"""A candidate with its layouts, a plan with its name, or an operator's kind and name."""
_WORDS = re.compile(r"(?<![\w.*-])[A-Za-z][a-z]{2,}(?![\w.*-])")
