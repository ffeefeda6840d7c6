"""Words of MindSpore's older scripts, and the parameters of its searches.

`full_batch` and `all_reduce_fusion_config` are what `dataset_strategy` and `comm_fusion` say today;
`strategy_ckpt_load_file` is what `strategy_ckpt_config` has been since 2.0, and `AutoParallel` is
there from 2.5 on.

Source: MindSpore 2.10.0, `context.py`, set_auto_parallel_context, and
`parallel/algo_parameter_config.py`, set_algo_parameters; the release notes of 2.0 and 2.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from exporters.settings import Setting, Settings, fault

__all__ = ["OLDER", "Release", "in_todays_words", "release_of", "search_parameters"]

Release: TypeAlias = tuple[int, int]
LATEST: Release = (2, 10)
WITH_CHECKPOINT_CONFIG: Release = (2, 0)
WITH_AUTO_PARALLEL: Release = (2, 5)
OLDER = (
    Setting("full_batch", "true|false", "an older name of dataset_strategy=full_batch or "
            "data_parallel"),
    Setting("all_reduce_fusion_config", "N[,N...]", "an older name of "
            "comm_fusion=allreduce=index:N,N"),
    Setting("algo_parameters", "NAME=VALUE[;...]", "set_algo_parameters of a search, such as "
            "elementwise_op_strategy_follow=true"),
    Setting("release", "1.3 to 2.10", "of MindSpore: 1.x has strategy_ckpt_load_file, and "
            "AutoParallel is there from 2.5 on"),
)  # fmt: skip
_FLAG, _SIZE, _SHARE = re.compile("true|false"), re.compile(r"\d{1,4}"), re.compile(r"[01]?\.\d+|1")
_PARAMETERS: Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]] = {
    "fully_use_devices": (_FLAG, "true".__eq__),
    "elementwise_op_strategy_follow": (_FLAG, "true".__eq__),
    "enable_algo_approxi": (_FLAG, "true".__eq__),
    "algo_approxi_epsilon": (_SHARE, float),
    "tensor_slice_align_enable": (_FLAG, "true".__eq__),
    "tensor_slice_align_size": (_SIZE, int),
}
_MOST_ALIGNED = 1024


def in_todays_words(settings: Settings) -> Settings:
    """The same settings with today's names.

    Raises:
        ExportError: something is said twice, or a value cannot be.
    """
    if settings.has("full_batch"):
        whole = settings.flag("full_batch", default=False)
        value = "full_batch" if whole else "data_parallel"
        settings = settings.said_as("full_batch", "dataset_strategy", value)
    if settings.has("all_reduce_fusion_config"):
        text = settings.text("all_reduce_fusion_config", "").strip("[] ")
        if not re.fullmatch(r"\d{1,6}(\s*,\s*\d{1,6})*", text):
            fix = "write such as 20,35"
            raise fault(f"{text[:80]!r} are no indices", "all_reduce_fusion_config", fix)
        value = f"allreduce=index:{re.sub(r'[^0-9,]', '', text)}"
        settings = settings.said_as("all_reduce_fusion_config", "comm_fusion", value)
    return settings


def release_of(settings: Settings) -> Release:
    """The release of MindSpore that a script is for."""
    text = settings.text("release", ".".join(map(str, LATEST)))
    found = re.fullmatch(r"(\d)\.(\d{1,2})(?:\.\d{1,2})?", text, re.ASCII)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    if not (1, 3) <= release <= LATEST:
        raise fault(f"{text[:80]!r} is no release that is known", "release", "give 1.3 to 2.10")
    return release


def search_parameters(settings: Settings, *, whole_devices: bool) -> dict[str, object]:
    """Arguments of `set_algo_parameters`.

    Args:
        settings: what the user set.
        whole_devices: whether the plan's search was told to use all devices or none.

    Raises:
        ExportError: a name or a value that MindSpore does not take.
    """
    out: dict[str, object] = {"fully_use_devices": True} if whole_devices else {}
    text = settings.text("algo_parameters", "")
    for item in filter(None, re.split(r"[;\s]+", text)):
        name, _, value = item.partition("=")
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            raise fault(f"no parameter {name[:80]!r}", "algo_parameters", f"known: {known}")
        pattern, read = _PARAMETERS[name]
        fits = pattern.fullmatch(value) is not None
        if not fits or (read is int and not 1 <= int(value) <= _MOST_ALIGNED):
            what = f"{value[:80]!r} is no value of {name}"
            raise fault(what, "algo_parameters", "see MindSpore's set_algo_parameters")
        out[name] = read(value)
    return out
