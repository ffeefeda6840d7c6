"""Networks without a file: published ones by name, and any by its sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path, PurePath
from types import MappingProxyType

import data
from importers.errors import ModelError
from importers.files import is_there
from importers.hf_config import import_config, read_config
from importers.hf_fields import FIELDS
from ir.graph import OpGraph
from ir.symbols import Binding

_FOLDER = "configurations"
_MOST_SHOWN = 80
"""Characters of a name that an error repeats."""
_MOST_OF_PATH = 1000
"""The same of a path."""
_MOST_BESIDE = 10_000
"""Files of a folder whose names are looked at."""

PLAIN: Mapping[str, object] = MappingProxyType(
    {"model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": False,
     "torch_dtype": "bfloat16"}
)  # fmt: skip
"""What a network is made of where only sizes are given: the blocks of Llama."""


@dataclass(frozen=True, slots=True)
class Published:
    """A published model."""

    name: str
    config: Mapping[str, object]
    """Fields of its config.json that give sizes."""
    parameters: str
    """As published, e.g. `"671 B"`."""
    source: tuple[str, ...]
    """Where the sizes are published, as keys of `data/sources.yaml`."""
    page: str
    """The page or table there."""


def published_names() -> tuple[str, ...]:
    """Names of the models whose sizes are bundled."""
    return data.names(_FOLDER)


def published(name: str) -> Published:
    """The published model of this name, one of `published_names()`."""
    record = data.read_yaml(_FOLDER, f"{name}.yaml")
    return Published(
        name, record["config"], record["parameters"], tuple(record["source"]), record["page"]
    )


def import_published(name: str, bind: Binding | None = None) -> OpGraph:
    """The operator graph of a published model; `bind` as in `importers.hf_config`."""
    return import_config(published(name).config, name, f"the sizes of {name}", bind)


def configuration(model: str) -> Mapping[str, object]:
    """The fields of a config.json, or of the published model of this name.

    Raises:
        ModelError: there is neither.
    """
    path = Path(model)
    if is_there(path):
        return read_config(path)
    if path.suffix == ".json" or path.name != model:
        raise no_model(model, is_file=True)
    check_published(model)
    return published(model).config


def check_published(name: str) -> None:
    """Refuse a name that is neither a file's nor a published model's.

    Raises:
        ModelError: it is no published model's.
    """
    if name not in published_names():
        raise no_model(name)


def no_model(name: str, *, is_file: bool = False) -> ModelError:
    """The error for a name that is neither a file's nor a published model's, with the nearest.

    Args:
        name: what was given; a path or a repository's name ends in that of the model.
        is_file: it can be a file's alone.
    """
    shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}..."
    # A path is told by its end.
    path = name if len(name) <= _MOST_OF_PATH else f"...{name[-_MOST_OF_PATH:]}"
    stem = re.sub(r"(\.[a-z_]+\d?){1,2}$", "", PurePath(name).name[:_MOST_SHOWN].lower())
    beside = _files_beside(name) if is_file else []
    close = beside or get_close_matches(stem, published_names(), n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    nowhere = f"there is neither a file nor a published model {shown!r}"
    return ModelError(
        f"cannot read {path}: No such file or directory" if is_file else nowhere,
        path if is_file else "MODEL",
        f"{hint}name an .onnx file, a config.json, or a model of `planner sizes --list`",
    )


def _files_beside(name: str) -> list[str]:
    """The path of the file in the same folder whose name is nearest, if one is near."""
    try:
        found = sorted(e.name for e in islice(Path(name).parent.iterdir(), _MOST_BESIDE))
        close = get_close_matches(Path(name).name, found, n=1, cutoff=0.8)
    except (OSError, ValueError):  # no such folder, or a name that no file can have
        return []
    return [str(Path(name).with_name(each)) for each in close]


def with_sizes(
    config: Mapping[str, object], sizes: Mapping[str, int | bool | str]
) -> dict[str, object]:
    """The fields of a config.json with other sizes.

    Args:
        config: fields to start from.
        sizes: by their meaning in `importers.hf_fields`. Each takes the name that the fields have
            for it already, or the usual one.

    Raises:
        ModelError: the sizes need one that is not given.
    """
    changed = dict(config)
    for meaning, size in sizes.items():
        names = FIELDS[meaning]
        changed[next((n for n in names if n in config), names[0])] = size
    if "experts" in sizes and config.get("model_type") == "llama":
        changed["model_type"] = "mixtral"
    if sizes.get("experts", 0) and "experts per token" not in sizes:
        known = any(config.get(n) is not None for n in FIELDS["experts per token"])
        if not known:
            raise ModelError(
                "how many experts a token takes is not given",
                "--experts",
                "add --experts-per-token, such as 2",
            )
    return changed
