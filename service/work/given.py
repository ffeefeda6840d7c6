"""What a task works on: its request, and the items that the request names, already fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ir.plan import Plan
from ir.plan_file import read_plan
from planner.requests.errors import UserError
from planner.requests.sources import Document, ModelSource, model_file, published_model
from service.store.items import Item, is_item_id


@dataclass(frozen=True, slots=True)
class Given:
    """All that a task may look at."""

    request: Mapping[str, Any]
    items: Mapping[str, tuple[Item, bytes]]
    """Items of the owner by id, with their bytes."""
    report: Callable[[str], None]
    """Receives lines of progress."""

    def content(self, item_id: str, kind: str) -> tuple[Item, bytes]:
        """An item of a kind.

        Raises:
            UserError: there is none.
        """
        found = self.items.get(item_id)
        if found is None or found[0].kind != kind:
            raise UserError(f"there is no {kind} {item_id[:64]!r}", kind, "upload it, or list them")
        return found

    def model(self, name: str) -> ModelSource:
        """An uploaded model by its id, or a published one by its name.

        Raises:
            UserError: there is neither.
            ModelError: the model cannot be read.
        """
        if not is_item_id(name):
            return published_model(name)
        return model_file(self.file(name, "model"))

    def configuration(self, name: str) -> tuple[Mapping[str, object], str]:
        """The fields of an uploaded config.json or of a published model, and its name.

        Raises:
            UserError: the owner has no such upload.
            ModelError: there is no such model, or it is no configuration.
        """
        from importers.hf_config import read_config  # noqa: PLC0415
        from importers.sizes import check_published, published  # noqa: PLC0415

        if is_item_id(name):
            path = self.file(name, "model")
            return read_config(path), path.stem
        check_published(name)
        return published(name).config, name

    def file(self, item_id: str, kind: str) -> Path:
        """An item as a file in the current folder, which is the task's own and goes away with it.

        Its name was checked when it was uploaded: it holds no slash and does not begin with a dot.

        Raises:
            UserError: there is none.
        """
        item, content = self.content(item_id, kind)
        path = Path("plan.json" if kind == "plan" else item.name)
        path.write_bytes(content)
        return path

    def plan(self, item_id: str, *, staged: bool = False) -> Plan:
        """A plan.

        Raises:
            UserError: there is none.
            PlanFileError: it has stages that will not do.
        """
        return read_plan(self.file(item_id, "plan"), staged=staged)

    def machine_file(self, name: str | None) -> Document | None:
        """An uploaded cluster by its id; `None` leaves the name to the bundled machines.

        Raises:
            UserError: the owner has no such cluster.
        """
        if name is None or not is_item_id(name):
            return None
        return self.document(name, "cluster")

    def document(self, item_id: str, kind: str) -> Document:
        """An item as text.

        Raises:
            UserError: there is none, or it is no text.
        """
        item, content = self.content(item_id, kind)
        try:
            return Document(item.name, content.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{item.name} is no text in UTF-8", kind, "upload a text") from error


def items_named(value: object) -> set[str]:
    """All ids of items in a request."""
    if isinstance(value, str):
        return {each for each in value.split(",") if is_item_id(each)}
    if isinstance(value, Mapping):
        return set().union(*map(items_named, value.values()))
    if isinstance(value, list):
        return set().union(*map(items_named, value))
    return set()
