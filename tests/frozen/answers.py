"""Runs the cases, keeps what they print and write, and compares it with what was kept.

    python -m tests.frozen.answers compare [NAME ...]   # exit status 1 and the first differences
    python -m tests.frozen.answers freeze [NAME ...]    # keep today's answers

An answer is the exit status, what was printed, and every file written. Numbers may differ by one
part in 10^12 (`--exact` for none): whatever else differs is told with its first place.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "frozen" / "cases.txt"
KEPT = ROOT / "tests" / "frozen" / "answers"
TOLERANCE = 1e-12
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
PROGRESS = re.compile(r"^ *\d+\.\d s  .*\n", re.MULTILINE)
SHOWN = 60
Answer = dict[str, str]
"""What stands where: `0 exit`, `0 stdout` of the first command, `plan/plan.json` of a file."""


@dataclass(frozen=True, slots=True)
class Case:
    """Commands that run one after the other in a folder of their own."""

    name: str
    commands: tuple[tuple[str, ...], ...]


def cases(text: str) -> Iterator[Case]:
    """The cases of a text: a name in brackets, then a command on each line; # begins a comment."""
    for block in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        name, *lines = block.splitlines()
        asked = (shlex.split(line, comments=True) for line in lines)
        yield Case(name.rstrip("]"), tuple(tuple(each) for each in asked if each))


def answer(case: Case) -> Answer:
    """Runs the commands of a case one after the other in a folder of their own."""
    from typer.testing import CliRunner  # noqa: PLC0415

    from cli.main import app  # noqa: PLC0415

    found: Answer = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        links = [folder / each for each in ("data", "tests", "benchmarks")]
        for link in links:
            link.symlink_to(ROOT / link.name)
        os.chdir(folder)
        for at, command in enumerate(case.commands):
            result = CliRunner(env={"COLUMNS": "100"}).invoke(
                app, list(command), prog_name="planner"
            )
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            found[f"{at} exit"] = f"{result.exit_code}\n"
            found[f"{at} stdout"] = result.stdout
            if result.exit_code:
                found[f"{at} stderr"] = PROGRESS.sub("", result.stderr)
        for path in sorted(folder.rglob("*")):
            inside = not any(path.is_relative_to(link) for link in links)
            if inside and path.is_file():
                content = path.read_bytes()
                found[str(path.relative_to(folder))] = content.decode("utf-8", "backslashreplace")
        os.chdir(ROOT)
    return found


def kept(name: str) -> Answer:
    """The answer of a case as it was frozen; empty if it never was."""
    path = KEPT / f"{name}.json.gz"
    if not path.exists():
        return {}
    content: Answer = json.loads(gzip.decompress(path.read_bytes()))
    return content


def keep(name: str, found: Answer) -> None:
    """Writes an answer; the same answer gives the same bytes."""
    KEPT.mkdir(exist_ok=True)
    text = json.dumps(found, indent=0, sort_keys=True).encode()
    (KEPT / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def differences(old: Answer, new: Answer, tolerance: float) -> Iterator[str]:
    """Where two answers differ: one sentence for each command and file."""
    for part in sorted(old.keys() | new.keys()):
        if part not in new or part not in old:
            yield f"{part}: {'is missing' if part not in new else 'is new'}"
        elif old[part] != new[part]:
            place = first_difference(old[part], new[part], tolerance)
            if place:
                yield f"{part}{place}"


def first_difference(old: str, new: str, tolerance: float) -> str:
    """Line and text of the first difference; empty if numbers alone differ, within tolerance."""
    before, after = old.split("\n"), new.split("\n")
    for at, (a, b) in enumerate(zip(before, after, strict=False), start=1):
        if a != b and not _alike(a, b, tolerance):
            same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
            column = len(list(same))
            shown = slice(max(0, column - SHOWN // 2), column + SHOWN // 2)
            return f":{at}:{column + 1}: {a[shown]!r} became {b[shown]!r}"
    if len(before) != len(after):
        return f": {len(before)} lines became {len(after)}"
    return ""


def _alike(a: str, b: str, tolerance: float) -> bool:
    if not tolerance or NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(abs(float(x) - float(y)) <= tolerance * abs(float(x)) for x, y in pairs)


def _answers(chosen: Sequence[Case], workers: int) -> Iterator[tuple[Case, Answer]]:
    """Answers as they come; every process is fresh, so that no case leans on another."""
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        waiting = {pool.submit(answer, case): case for case in chosen}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares or freezes; the exit status is 1 if an answer differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.answers")
    parser.add_argument("action", choices=("compare", "freeze"))
    parser.add_argument("names", nargs="*", help="cases; all of them by default")
    parser.add_argument("--exact", action="store_true", help="numbers must be the same to the byte")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    known = {case.name: case for case in cases(CASES.read_text())}
    unknown = sorted(set(given.names) - known.keys())
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; known: {', '.join(known)}")
    chosen = [known[name] for name in given.names or known]
    failed = 0
    for case, found in _answers(chosen, given.workers):
        if given.action == "freeze":
            keep(case.name, found)
            print(f"{case.name}: {len(found)} parts kept", flush=True)
            continue
        faults = list(differences(kept(case.name), found, 0 if given.exact else TOLERANCE))
        failed += bool(faults)
        print(
            "\n  ".join((f"{case.name}: {len(faults)} of {len(found)} parts differ", *faults[:5])),
            flush=True,
        )
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
