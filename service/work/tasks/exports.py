"""A plan in the form of a framework. Settings that name files are given their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.formats import FORMATS, Format, Names, bundled_names, planned_sizes
from exporters.settings import Setting, Settings
from importers.mindir.listing import listed_primitives
from ir.plan import Plan
from planner.requests.errors import UserError, unknown_name
from service.store.items import NewItem, is_item_id
from service.store.queue import Outcome
from service.work.archive import zipped
from service.work.given import Given

_STRANGE = re.compile(r"[^\w.-]", re.ASCII)
"""What names of files do without."""


class TextSettings(Settings):
    """Settings whose files are texts of the request: no name in them is opened."""

    def __init__(
        self, given: Mapping[str, str], known: Sequence[Setting], files: Mapping[str, str]
    ) -> None:
        super().__init__({**dict.fromkeys(files, "given"), **given}, known)
        self._files = files

    def file_text(self, name: str, most_bytes: int = 2**20) -> str:
        """The text that came with the request."""
        if self.has(name) and name not in self._files:
            raise UserError(
                f"{name} is a file", f"settings.{name}", f"give its text as files.{name}"
            )
        text = self._files.get(name, "")
        if len(text.encode()) > most_bytes:
            raise UserError(f"more than {most_bytes} bytes", f"files.{name}", "give a small file")
        return text


@dataclass(frozen=True, slots=True)
class _Made:
    files: dict[str, bytes]
    notes: tuple[str, ...]


def export(given: Given) -> Outcome:
    """The file of a format, or a zip archive of its files.

    Raises:
        UserError: an option is wrong.
        ExportError: the format cannot express the plan.
    """
    plan_id = str(given.request["plan"])
    chosen = FORMATS.get(str(given.request["format"]))
    if chosen is None:
        raise unknown_name("format", str(given.request["format"])[:80], FORMATS, "format")
    plan = given.plan(plan_id, staged=True)
    made = _made(chosen, plan, given)
    if len(made.files) == 1 and not chosen.is_folder:
        ((name, data),) = made.files.items()
    else:
        name, data = f"{chosen.name}.zip", zipped(made.files)
    name = f"{_STRANGE.sub('_', plan.graph.name)[:60] or 'plan'}-{name}"
    facts = {"plan": plan_id, "format": chosen.name}
    result = {"export": "$export", "format": chosen.name, "name": name, "notes": list(made.notes)}
    return Outcome(result, (NewItem("export", name, data, facts),))


def _made(form: Format, plan: Plan, given: Given) -> _Made:
    request = given.request
    settings = TextSettings(dict(request["settings"]), form.settings, dict(request["files"]))
    suffix = _suffix(form, request.get("suffix"))
    if form.of_primitives is not None:
        return _of_model(form, plan, given, settings, suffix)
    if form.made is not None:
        found = form.make(plan, settings)
        named = {name or f"{form.name}{suffix}": text for name, text in found.files.items()}
        return _Made({name: text.encode() for name, text in named.items()}, found.notes)
    names = _names(form, plan, request.get("names"))
    path = Path(f"{form.name}{suffix}")
    form.writer(plan, names)(path)
    return _Made({path.name: path.read_bytes()}, form.losses(plan, names))


def _of_model(
    form: Format, plan: Plan, given: Given, settings: Settings, suffix: str
) -> _Made:  # fmt: skip
    model = settings.text("model", "")
    primitives: Sequence[Any] = ()
    if model:
        if not is_item_id(model):
            raise UserError(f"{model[:80]!r} is no model", "settings.model", "give an uploaded one")
        primitives = listed_primitives(given.file(model, "model"), planned_sizes(plan))
    elif not plan.graph.primitives and any(each.name == "model" for each in form.settings):
        form.writer(plan, None)
    found = form.of_model(plan, settings, primitives)
    return _Made({f"{form.name}{suffix}": found.content}, found.notes)


def _names(form: Format, plan: Plan, names: str | None) -> Names | None:
    if names is None:
        return None
    if not form.takes_names:
        raise UserError(f"{form.name} takes no names", "names", "leave names out")
    if names not in bundled_names():
        raise unknown_name("network", names[:80], bundled_names(), "names")
    return form.names(plan, names)


def _suffix(form: Format, suffix: str | None) -> str:
    known = form.forms
    if suffix is None:
        return known[0]
    if suffix not in known:
        raise unknown_name("suffix", suffix[:20], known, "suffix")
    return suffix
