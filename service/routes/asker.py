"""What a route is given of the one who asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request

from service.desk import Desk
from service.visible import VisibleStore

ItemId = Annotated[str, Path(pattern=r"^[a-z]_[0-9a-f]{32}$", description="as the service gave it")]
JobId = Annotated[str, Path(pattern=r"^j_[0-9a-f]{32}$", description="as the service gave it")]


def _shown(request: Request) -> VisibleStore:
    store: VisibleStore = request.app.state.store
    return store


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


Shown = Annotated[VisibleStore, Depends(_shown)]
"""The asker's items."""
Asker = Annotated[Desk, Depends(_desk)]
"""Where the asker hands in jobs."""
