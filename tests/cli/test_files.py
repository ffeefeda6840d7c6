"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.errors import UserError
from cli.files import check_folder, check_outputs, write_files, write_paths

pytestmark = pytest.mark.fast


def failing(path: Path) -> None:
    path.write_text("half")
    raise OSError(28, "No space left on device")


def faulty(path: Path) -> None:
    path.write_text("half")
    raise ZeroDivisionError


def tree(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text() if p.is_file() else "" for p in folder.rglob("*")
    }


def test_all_files_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    written = write_files(
        tmp_path / "a" / "b", {"one": lambda p: _put(p, "1"), "two": lambda p: _put(p, "2")}
    )
    assert written == [tmp_path / "a" / "b" / "one", tmp_path / "a" / "b" / "two"]
    assert tree(tmp_path / "a" / "b") == {"one": "1", "two": "2"}


def _put(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("second", [failing, faulty])
def test_a_failure_leaves_the_old_files_and_no_others(second: object, tmp_path: Path) -> None:
    _put(tmp_path / "one", "old")
    with pytest.raises((UserError, ZeroDivisionError)):
        write_files(tmp_path, {"one": lambda p: _put(p, "new"), "two": second})  # type: ignore[dict-item]
    assert tree(tmp_path) == {"one": "old"}


def test_a_failure_takes_the_folders_away_that_it_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No space left"):
        write_files(tmp_path / "a" / "b", {"one": failing})
    assert tree(tmp_path) == {}


def test_a_folder_in_the_place_of_a_file_is_found_before_anything_is_replaced(
    tmp_path: Path,
) -> None:
    _put(tmp_path / "one", "old")
    (tmp_path / "two").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        write_files(tmp_path, {"one": lambda p: _put(p, "new"), "two": lambda p: _put(p, "new")})
    assert tree(tmp_path) == {"one": "old", "two": ""}


def test_checking_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path)
    assert tree(tmp_path) == {}


def test_checking_keeps_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    check_folder(tmp_path / "a")
    assert tree(tmp_path) == {"a": ""}


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_cannot_be_a_folder(below: str, tmp_path: Path) -> None:
    _put(tmp_path / "file", "mine")
    with pytest.raises(UserError, match="fix: "):
        check_folder(tmp_path / "file" / below)
    assert tree(tmp_path) == {"file": "mine"}


def test_a_folder_that_forbids_writing_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cli.files.tempfile.mkdtemp", forbidden)
    with pytest.raises(UserError, match="Permission denied"):
        check_folder(tmp_path / "new")
    assert tree(tmp_path) == {}


def test_what_is_read_is_not_replaced(tmp_path: Path) -> None:
    _put(tmp_path / "rows.csv", "mine")
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    for name in ("rows.csv", "link.csv"):
        with pytest.raises(UserError, match="is what is read\n  at:  --trace"):
            check_outputs({"--trace": tmp_path / name}, [tmp_path / "rows.csv"])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="named for two outputs"):
        check_outputs({"--trace": tmp_path / "a", "--plot": tmp_path / "a"})
    check_outputs({"--trace": tmp_path / "a", "--plot": tmp_path / "b", "-o": None})
    assert tree(tmp_path) == {}


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/null"), Path("/dev/new"), pipe):
        with pytest.raises(UserError, match="is no regular file"):
            check_outputs({"-o": path})
        with pytest.raises(UserError, match="is no regular file"):
            write_paths({path: lambda p: _put(p, "new")})
    assert pipe.is_fifo()


def test_files_of_two_folders_are_written_both_or_none(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "one", tmp_path / "b" / "two"
    with pytest.raises(UserError, match="No space left"):
        write_paths({one: lambda p: _put(p, "1"), two: failing})
    assert tree(tmp_path) == {}
    assert write_paths({one: lambda p: _put(p, "1"), two: lambda p: _put(p, "2")}) == [one, two]
    assert (one.read_text(), two.read_text()) == ("1", "2")
