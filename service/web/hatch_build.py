"""What hatchling does before it makes a wheel or an sdist: the built page goes into both.

An editable install has none: there `planner serve` takes the page from `build/page` (`make web`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_WHEEL = "service/web/static"


class PageHook(BuildHookInterface[Any]):
    """Builds the page, and puts it where the service of a wheel looks for it."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node from its Python package, where the page is not built and node is not installed."""
        page = self._builder()
        if page.is_built(Path(self.root)) or page.installed_node() is not None:
            return []
        lines = (Path(self.root) / "requirements-web.lock").read_text().splitlines()
        return [line.split()[0] for line in lines if "==" in line and not line.startswith("#")]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, unless the install is an editable one."""
        if version == "editable":
            return
        root = Path(self.root)
        page = self._builder()
        place = IN_WHEEL if self.target_name == "wheel" else page.BUILT.as_posix()
        build_data["force_include"][str(page.built_page(root))] = place

    def _builder(self) -> Any:
        """The module that builds; a build has the checkout nowhere on its path."""
        sys.path.insert(0, self.root)
        try:
            from service.web import build_page  # noqa: PLC0415
        finally:
            sys.path.remove(self.root)
        return build_page
