"""Progress is seen and leaves no trace."""

from __future__ import annotations

import io

import pytest

from cli.progress import CLEAR, Progress

pytestmark = pytest.mark.fast


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_one_line_for_each_stage() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        for line in ("reading x", "price 1: 3 s", "price 2: 2 s", "split: 1 s", "price 3: 1 s"):
            progress(line)
    lines = [line.partition(" s  ")[2] for line in stream.getvalue().splitlines()]
    assert lines == ["reading x", "price 1: 3 s", "split: 1 s", "price 3: 1 s"]
    assert "\x1b" not in stream.getvalue()


def test_a_long_stage_is_said_again_after_a_while() -> None:
    stream, now = io.StringIO(), [0.0]
    with Progress(stream, lambda: now[0]) as progress:
        for number in range(26):
            progress(f"{number * 1000:,} of 26,000 priced")
            now[0] += 1.0
    lines = [line.partition(" s  ")[2] for line in stream.getvalue().splitlines()]
    assert lines == ["0 of 26,000 priced", "10,000 of 26,000 priced", "20,000 of 26,000 priced"]


def test_on_a_terminal_one_line_changes_and_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress(stream) as progress:
        progress("a" * 100)
        progress("b")
    written = stream.getvalue()
    assert "\n" not in written
    assert max(len(part) for part in written.split(CLEAR)) == 39
    assert written.endswith(CLEAR)


def test_the_line_disappears_before_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Progress(stream) as progress:
        progress(str(1 // 0))
    assert stream.getvalue().endswith(CLEAR)


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(stream) as progress:
        progress("a")
    assert "\x1b" not in stream.getvalue()
