"""Files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.errors import ModelError
from importers.files import is_there, read_json_object

pytestmark = pytest.mark.fast


def test_a_name_that_no_file_can_have_is_not_there() -> None:
    for name in ("x" * 5000, "a\0b"):
        assert not is_there(Path(name))
        with pytest.raises(ModelError, match="cannot read"):
            read_json_object(Path(name), 100, "")


def test_an_object_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    assert read_json_object(path, 8, "") == {"a": 1}
    with pytest.raises(ModelError, match="larger than 7 bytes"):
        read_json_object(path, 7, "")
