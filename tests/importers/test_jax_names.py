"""What the tracer of JAX programs does without JAX; `make test-judges` traces with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from importers.jax_trace import _with_names, main

pytestmark = pytest.mark.fast


def test_locations_keep_names_and_no_lines_of_source() -> None:
    text = '%0 = add loc(#loc1)\n%1 = sub loc(#loc2)\n#loc1 = loc("x")\n#loc2 = loc("a.py":3:4)\n'
    assert _with_names(text) == '%0 = add loc("x")\n%1 = sub\n'


def test_what_is_no_function_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["nowhere"]) == 2
    assert "no module:function" in capsys.readouterr().err
