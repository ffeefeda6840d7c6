"""The table of formats: what `planner export` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from exporters import html, jax, megatron, table, torch
from exporters.errors import ExportError
from exporters.mindspore import (
    custom,
    groups,
    inference,
    launch,
    msjob,
    operator_json,
    operator_strategy,
    parameter_server,
    script,
    shard_calls,
    strategy,
)
from exporters.mindspore.apply import apply_module
from exporters.mindspore.checkpoint import losses, strategy_checkpoint
from exporters.mindspore.names import Names, bundled_names, name_rules, names_for, renamed
from exporters.mindspore.slicing import strategy_slicing
from exporters.mindspore.symbols import planned_sizes
from exporters.settings import Made, Setting, Settings
from ir.file_primitives import FilePrimitive
from ir.plan import Plan
from ir.plan_stages import has_equal_stages
from ir.slicing import Slicing
from ir.violations import Violation

__all__ = [
    "FORMATS", "TARGET_FILES", "Format", "MadeOfModel", "Names", "Writer", "bundled_names",
    "file_slicing", "name_rules", "planned_sizes", "target_files", "writes",
]  # fmt: skip

Writer: TypeAlias = Callable[[Path], None]
Text: TypeAlias = Callable[[Plan], str]


@dataclass(frozen=True, slots=True)
class MadeOfModel:
    """A file that the plan alone does not make, or that is no text."""

    content: bytes
    notes: tuple[str, ...]
    """What it says otherwise than the plan, a sentence each."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    written: Callable[[Plan, Names | None], Writer]
    """Makes what writes the file, with the network's names of the parameters. Either of them raises
    ExportError if the plan cannot be expressed.
    """
    lost: Callable[[Plan, Names | None], tuple[str, ...]] = lambda _, __: ()
    """What the file does not say of the plan, a sentence each."""
    takes_names: bool = False
    """Whether the network may have other names than the model file."""
    suffixes: tuple[str, ...] = ()
    """Forms that the suffix of the file chooses; empty if there is one for all."""
    settings: tuple[Setting, ...] = ()
    """What the files need to know and the plan does not say."""
    made: Callable[[Plan, Settings], Made] | None = None
    """Makes the files with the settings; None for a format without any."""
    is_folder: bool = False
    """Whether several files go into a folder."""
    of_primitives: Callable[[Plan, Settings, Sequence[FilePrimitive]], MadeOfModel] | None = None
    """Makes the file with the primitives of the model file, where it needs them."""
    usual: tuple[str, ...] = ("",)
    """Suffixes of files that may have any, the first one where none is named."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Suffixes of a file, the usual one first."""
        return self.suffixes or self.usual

    def writer(self, plan: Plan, names: Names | None) -> Writer:
        """What writes the file.

        Raises:
            ExportError: the plan cannot be expressed.
        """
        self.check(plan)
        return self.written(plan, names)

    def names(self, plan: Plan, source: str) -> Names:
        """What a network, known by name or by a file of patterns, calls the parameters of a plan.

        Raises:
            ExportError: there is no such file, or it does not fit the plan.
        """
        return names_for(plan, name_rules(source))

    def losses(self, plan: Plan, names: Names | None) -> tuple[str, ...]:
        """What the file does not say of the plan, a sentence each."""
        trains = self.name in _LAID_OUT and self.name not in _RINGS
        return (*self.lost(plan, names), *(_of_ring(plan) if trains else ()))

    def make(self, plan: Plan, settings: Settings) -> Made:
        """The files that settings decide, where `made` makes them."""
        self.check(plan)
        assert self.made is not None
        return self.made(plan, settings)

    def of_model(
        self, plan: Plan, settings: Settings, primitives: Sequence[FilePrimitive]
    ) -> MadeOfModel:
        """The file with the primitives of the model file, where `of_primitives` makes it."""
        self.check(plan)
        assert self.of_primitives is not None
        return self.of_primitives(plan, settings, primitives)

    def check(self, plan: Plan) -> None:
        """Raise `ExportError` for what a format that a framework trains by cannot say: optimizer
        state that rests in the memory of the host, and in most of them stages that differ in their
        devices.
        """
        if self.name not in _LAID_OUT:
            return
        if self.name not in _STAGE_BY_STAGE and not has_equal_stages(plan):
            what = f"stages of the plan differ in their devices, which {self.name} cannot say"
            fix = "plan again without --stage-meshes"
            raise ExportError(Violation(what, "--stage-meshes", fix))
        held = sum(tensor.host_bytes > 0 for tensor in plan.parameters)
        if held:
            what = (
                f"optimizer state of {held} parameters is in host memory, which "
                f"{self.name} cannot say"
            )
            raise ExportError(Violation(what, "--offload", "plan again without --offload"))


def file_slicing(path: Path) -> Slicing:
    """Which part of every parameter each rank keeps, as a strategy file says it.

    Raises:
        StrategyFileError: it is none, or is damaged.
    """
    return strategy_slicing(strategy.read(path), str(path))


def writes(content: str | bytes) -> Writer:
    """What writes this to a file."""

    def write(path: Path) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def _mindspore(plan: Plan, names: Names | None) -> Writer:
    checkpoint = strategy_checkpoint(plan, names)

    def write(path: Path) -> None:
        strategy.write(path, checkpoint)

    return write


def _mindspore_apply(plan: Plan, names: Names | None) -> Writer:
    return writes(apply_module(plan, names))


def _mindspore_losses(plan: Plan, names: Names | None) -> tuple[str, ...]:
    if names is None:
        return losses(plan)
    kept = len(plan.parameters) - len(names.new)
    own = f"{kept} parameters keep the names of the model file: no pattern matches them"
    return (*losses(renamed(plan, names)), *([own] if kept else []))


def _texts(forms: Mapping[str, Text]) -> Callable[[Plan, Names | None], Writer]:
    """Writes the text that belongs to the suffix, or to the empty one."""

    def writer(plan: Plan, _: Names | None) -> Writer:
        def write(path: Path) -> None:
            make = forms.get(path.suffix) or forms[""]
            path.write_text(make(plan), encoding="utf-8")

        return write

    return writer


def _with_settings(
    name: str,
    make: Callable[[Plan, Settings], Made],
    settings: tuple[Setting, ...],
    suffixes: tuple[str, ...] = (),
    *,
    is_folder: bool = False,
) -> Format:
    """A format whose files settings decide; its writer has their defaults."""

    def made(plan: Plan) -> Made:
        return make(plan, Settings({}, settings))

    def writer(plan: Plan, _: Names | None) -> Writer:
        texts = made(plan).files

        def write(path: Path) -> None:
            for own, text in texts.items():
                if own:
                    path.mkdir(exist_ok=True)
                (path / own if own else path).write_text(text, encoding="utf-8")

        return write

    def losses(plan: Plan, _: Names | None) -> tuple[str, ...]:
        return made(plan).notes

    return Format(name, writer, losses, False, suffixes, settings, make, is_folder)


def _lost(losses: Callable[[Plan], tuple[str, ...]]) -> Callable[..., tuple[str, ...]]:
    def found(plan: Plan, _: Names | None) -> tuple[str, ...]:
        return losses(plan)

    return found


def _of_model(_plan: Plan, _: Names | None) -> Writer:
    what = "the names of all operators are in the model file, not in the plan"
    raise ExportError(Violation(what, "--set model", "name the .mindir: --set model=net.mindir"))


def _groups(plan: Plan, settings: Settings, _: object) -> MadeOfModel:
    rank = settings.number("rank", 0, 0, max(plan.devices - 1, 0))
    return MadeOfModel(groups.to_protobuf(groups.groups_of(plan, rank)), ())


def _rank0_groups(plan: Plan, _: Names | None) -> Writer:
    return writes(_groups(plan, Settings({}, ()), None).content)


def _operators(plan: Plan, settings: Settings, primitives: Sequence[FilePrimitive]) -> MadeOfModel:
    scope = settings.text("scope", "")
    primitives = primitives or plan.graph.primitives
    if not primitives or not operator_strategy.has_full_names(primitives):
        _of_model(plan, None)
    found = operator_strategy.operator_strategy(plan, primitives, scope)
    text = operator_json.to_json(found.content)
    return MadeOfModel(text.encode(), operator_strategy.losses(plan, found))


_ALL = (
    Format("mindspore", _mindspore, _mindspore_losses, takes_names=True, usual=(".ckpt", ".json")),
    Format(
        "mindspore-apply", _mindspore_apply, _lost(custom.losses), takes_names=True, usual=(".py",)
    ),
    Format(
        "mindspore-operators",
        _of_model,
        suffixes=(".json",),
        settings=operator_strategy.SETTINGS,
        of_primitives=_operators,
    ),
    Format(
        "mindspore-groups",
        _rank0_groups,
        settings=groups.SETTINGS,
        usual=(".pb",),
        of_primitives=_groups,
    ),
    Format(
        "mindspore-inference",
        lambda plan, _: writes(inference.inference_module(plan)),
        _lost(inference.losses),
        suffixes=(".py",),
    ),
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
    Format(
        "megatron", _texts({"": megatron.to_arguments}), _lost(megatron.losses), usual=(".txt",)
    ),
    _with_settings("mindspore-script", script.script, script.SETTINGS, (".py",)),
    _with_settings("mindspore-shard", shard_calls.shard_module, shard_calls.SETTINGS),
    _with_settings("launch", launch.scripts, launch.SETTINGS, is_folder=True),
    _with_settings("msjob", msjob.resource, msjob.SETTINGS, (".yaml", ".yml")),
    _with_settings(
        "parameter-server", parameter_server.files, parameter_server.SETTINGS, is_folder=True
    ),
    Format("table", _texts({"": table.to_csv}), usual=(".csv",)),
    Format("html", _texts({"": html.to_html}), usual=(".html",)),
)

_LAID_OUT = frozenset({
    "mindspore", "mindspore-apply", "mindspore-operators", "jax", "torch", "megatron",
    "mindspore-script", "parameter-server",
})  # fmt: skip
"""Formats that a framework trains by: none can say that state passes through the device."""
_RINGS = frozenset({"megatron"})
"""Those of them that say how attention exchanges keys and values."""
_STAGE_BY_STAGE = frozenset({"jax", "torch"})
"""Those of them that write every stage with its own mesh."""


def _of_ring(plan: Plan) -> tuple[str, ...]:
    if plan.request.get("ring_attention", "off") == "off":
        return ()
    return ("it cannot express ring attention, which the times assume",)


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
_ONE_MESH = frozenset({"jax_sharding.py", "torch_placements.py"})
"""Files with one mesh, which a plan with pipeline stages does not have."""


def target_files(plan: Plan, target: str) -> Mapping[str, str]:
    """What `planner search` writes of a plan for a target."""
    files = TARGET_FILES.get(target, {})
    staged = not plan.pipeline.is_single
    return {n: form for n, form in files.items() if not (staged and n in _ONE_MESH)}
