"""The table of formats: what `planner export` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from exporters import (
    html,
    jax,
    megatron,
    mindspore,
    mindspore_custom,
    mindspore_strategy,
    table,
    torch,
)
from exporters.mindspore_apply import apply_module
from exporters.mindspore_names import Names, renamed
from ir.plan import Plan

Writer: TypeAlias = Callable[[Path], None]
Text: TypeAlias = Callable[[Plan], str]


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    writer: Callable[[Plan, Names | None], Writer]
    """Makes what writes the file, with the network's names of the parameters. Either of them raises
    ExportError if the plan cannot be expressed.
    """
    losses: Callable[[Plan, Names | None], tuple[str, ...]]
    """What the file does not say of the plan, a sentence each."""
    takes_names: bool = False
    """Whether the network may have other names than the model file."""
    suffixes: tuple[str, ...] = ()
    """Forms that the suffix of the file chooses; empty if there is one for all."""


def _mindspore(plan: Plan, names: Names | None) -> Writer:
    checkpoint = mindspore.strategy_checkpoint(plan, names)

    def write(path: Path) -> None:
        mindspore_strategy.write(path, checkpoint)

    return write


def _mindspore_apply(plan: Plan, names: Names | None) -> Writer:
    text = apply_module(plan, names)

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write


def _mindspore_losses(plan: Plan, names: Names | None) -> tuple[str, ...]:
    if names is None:
        return mindspore.losses(plan)
    kept = len(plan.parameters) - len(names.new)
    own = f"{kept} parameters keep the names of the model file: no pattern matches them"
    return (*mindspore.losses(renamed(plan, names)), *([own] if kept else []))


def _texts(forms: Mapping[str, Text]) -> Callable[[Plan, Names | None], Writer]:
    """Writes the text that belongs to the suffix, or to the empty one."""

    def writer(plan: Plan, _: Names | None) -> Writer:
        def write(path: Path) -> None:
            make = forms.get(path.suffix) or forms[""]
            path.write_text(make(plan), encoding="utf-8")

        return write

    return writer


def _lost(losses: Callable[[Plan], tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    def found(plan: Plan, _: Names | None) -> tuple[str, ...]:
        return losses(plan)

    return found


def _nothing(_: Plan) -> tuple[str, ...]:
    return ()


_ALL = (
    Format("mindspore", _mindspore, _mindspore_losses, takes_names=True),
    Format("mindspore-apply", _mindspore_apply, _lost(mindspore_custom.losses), takes_names=True),
    Format(
        "jax",
        _texts({".json": jax.to_json, ".py": jax.to_python}),
        _lost(jax.losses),
        suffixes=(".json", ".py"),
    ),
    Format(
        "torch",
        _texts({".json": torch.to_json, ".py": torch.to_python}),
        _lost(torch.losses),
        suffixes=(".json", ".py"),
    ),
    Format("megatron", _texts({"": megatron.to_arguments}), _lost(megatron.losses)),
    Format("table", _texts({"": table.to_csv}), _lost(_nothing)),
    Format("html", _texts({"": html.to_html}), _lost(_nothing)),
)

FORMATS: Mapping[str, Format] = MappingProxyType({form.name: form for form in _ALL})
"""All formats by name."""

TARGET_FILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "mindspore": {
            "strategy.ckpt": "mindspore",
            "strategy.json": "mindspore",
            "apply_mindspore.py": "mindspore-apply",
        },
        "jax": {"jax_sharding.json": "jax", "jax_sharding.py": "jax"},
        "torch": {"torch_placements.json": "torch", "torch_placements.py": "torch"},
    }
)
"""What `planner search` writes for a target: names of files with their formats."""
