"""Where the built page is, and what is said where it is not."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

SHIPPED = Path("web", "static")
"""Of the package in a wheel."""
BUILT = Path("build", "page")
"""Of a checkout, which has the sources and builds them."""
MISSING = "the page is not built; the service answers under /v1\n  at:  {place}\n  fix: make web"


def page_folder() -> Path | None:
    """Folder of the built page, nothing where there is none."""
    place = _place()
    return place if (place / "index.html").is_file() else None


def missing_page() -> str:
    """What is missing, and the command that makes it."""
    return MISSING.format(place=_place())


def _place() -> Path:
    package = Path(str(resources.files("service")))
    is_checkout = (package / "web" / "src").is_dir()
    return package.parent / BUILT if is_checkout else package / SHIPPED
