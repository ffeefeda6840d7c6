"""Whether a JSON file is an FX graph, before anything of PyTorch's forms is loaded."""

from __future__ import annotations

from pathlib import Path

_HEAD_BYTES = 4096


def is_fx_graph(path: Path) -> bool:
    """Whether a file begins as an FX graph written as JSON does; False where it cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return False
    return head.lstrip()[:1] == b"{" and b'"nodes"' in head and b'"op"' in head
