"""A plan as the lines that set MindSpore up, in its old and its new interface."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exporters.mindspore.checkpoint import input_cuts
from exporters.mindspore.context import SETTINGS, Context, context_of
from exporters.mindspore.fusion import Fusion
from exporters.mindspore.hybrid import hybrid_module
from exporters.mindspore.search_words import WITH_CHECKPOINT_CONFIG
from exporters.mindspore.symbols import label_shapes, symbol_calls
from exporters.settings import Made, Settings
from ir.plan import Plan

__all__ = ["SETTINGS", "old_arguments", "script"]

_MODULE = '''"""Sets MindSpore up for {devices} devices, as {model} was planned.

Written by `planner export --format mindspore-script`; it stands beside {beside}.

    import mindspore_script as setup

    setup.start()
{use}
"""

from pathlib import Path

import mindspore as ms
from mindspore.communication import init

DEVICES = {devices}
HERE = Path(__file__).resolve().parent
{tables}

def start():
    """The device, graph mode, and the connections to the other processes."""
    ms.set_context(mode=ms.GRAPH_MODE{level})
    if hasattr(ms, "set_device"):
        ms.set_device({device!a})
    else:  # before 2.4
        ms.set_context(device_target={device!a})
{memory}    init()


def old_interface():
    """`set_auto_parallel_context`: call it before the network is made."""
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(**OLD)
{search}{new}{dynamic}'''

_USE_OLD = """    setup.old_interface()           # before the network is made
    network = ...
{apply}"""

_USE_BOTH = """    network = ...
{apply}    step = setup.new_interface(training_step)   # or setup.old_interface() before all others
"""

_APPLY = """    for line in apply({arguments}):  # of apply_mindspore.py, before the optimizer
        print(line)
"""

_APPLIED = {"semi_auto": "network", "sharding_propagation": "network, follow=True"}
"""Arguments of `apply` in the modes that take strategies of primitives."""

_MEMORY = """    if hasattr(ms, "runtime"):
        ms.runtime.set_memory(max_size={size!a})
    else:  # before 2.5
        ms.set_context(max_device_memory={size!a})
"""

_NEW = '''

def new_interface(network):
    """The network or its training step, wrapped in `AutoParallel`."""
    from mindspore.parallel.auto_parallel import AutoParallel

    parallel = AutoParallel(network, parallel_mode={mode!a})
{search}{lines}    return parallel
'''

_DYNAMIC = '''

def set_dynamic_inputs(network):
    """Tell {cell} which sizes are not fixed.

    The sizes are those of one rank. Graphs with such sizes run kernel by kernel only: the context
    has `jit_level` O0, and the dataset is not sunk.
    """
{symbols}    network.set_inputs({tensors})
'''


def script(plan: Plan, settings: Settings) -> Made:
    """Text of the module.

    Raises:
        ExportError: MindSpore cannot express the plan, or refuses what was set.
    """
    context = context_of(plan, settings)
    new = context.has_new_interface
    arguments = _APPLIED.get(context.mode, "")
    apply = _APPLY.format(arguments=arguments) if arguments else ""
    beside = [
        context.strategy_file or "no strategy file",
        *(["apply_mindspore.py"] if apply else []),
    ]
    text = _MODULE.format(
        model=re.sub(r"[^\w.-]", "_", plan.graph.name, flags=re.ASCII) or "the model",
        devices=plan.devices,
        beside=" and ".join(re.sub(r"[^\w./ -]", "_", each, flags=re.ASCII) for each in beside),
        use=(_USE_BOTH if new else _USE_OLD).format(apply=apply),
        tables=_tables(context),
        level=', jit_config={"jit_level": "O0"}' if context.symbols else "",
        memory=_memory(context),
        device=context.device,
        search=_search(context),
        new=_new(context) if new else "",
        dynamic=_dynamic(context, plan),
    )
    if context.mode != "hybrid_parallel":
        return Made({"": text}, context.notes)
    more, notes = hybrid_module(plan)
    return Made({"": text + more}, (*context.notes, *notes))


def old_arguments(context: Context) -> dict[str, object]:
    """Arguments of `set_auto_parallel_context`, but for the path of the strategy file."""
    out: dict[str, object] = {"parallel_mode": context.parallel_mode}
    if context.search_mode:
        out["search_mode"] = context.search_mode
    if context.mode != "stand_alone":
        out |= {
            "device_num": context.devices,
            "gradients_mean": context.gradients_mean,
            "parameter_broadcast": context.parameter_broadcast,
        }
    if context.parallel_mode in {"semi_auto_parallel", "auto_parallel"}:
        out["dataset_strategy"] = context.dataset_strategy
        out["enable_alltoall"] = context.all_to_all
    if context.fusions is None or context.fusions:
        out["comm_fusion"] = fusion_config(context.fusions)
    if context.shard_size:
        size = {} if context.shard_size < 0 else {"optimizer_weight_shard_size": context.shard_size}
        out["enable_parallel_optimizer"] = True
        out["parallel_optimizer_config"] = {"parallel_optimizer_threshold": 0, **size}
    if context.pipeline_stages > 1:
        out["pipeline_stages"] = context.pipeline_stages
        out["pipeline_config"] = {
            "pipeline_interleave": context.interleaves,
            "pipeline_scheduler": context.pipeline_scheduler,
        }
    return out


def fusion_config(fusions: tuple[Fusion, ...] | None) -> dict[str, object]:
    """The value of `comm_fusion`."""
    if fusions is None:
        return {"openstate": False}
    return {"openstate": True, **{each.kind: each.entry for each in fusions}}


def _tables(context: Context) -> str:
    lines = ["", "OLD = {"]
    lines += [f"    {name!a}: {value!a}," for name, value in old_arguments(context).items()]
    if context.strategy_file:
        place = f"str(HERE / {context.strategy_file!a})"
        old = f'    "strategy_ckpt_load_file": {place},'
        new = f'    "strategy_ckpt_config": {{"load_file": {place}}},'
        lines.append(old if context.release < WITH_CHECKPOINT_CONFIG else new)
    lines += ["}", '"""Arguments of `set_auto_parallel_context`."""', ""]
    return "\n".join(lines)


def _memory(context: Context) -> str:
    size = context.max_device_memory
    return _MEMORY.format(size=size) if size else ""


def _search(context: Context) -> str:
    """What a search is told besides the mode, in either interface."""
    given = ", ".join(f"{name}={value!r}" for name, value in context.search_parameters.items())
    return f"    ms.set_algo_parameters({given})\n" if given else ""


def _new(context: Context) -> str:
    calls = [f"dataset_strategy({context.dataset_strategy!a})"]
    if context.strategy_file:
        calls.append(f"load_param_strategy_file(str(HERE / {context.strategy_file!a}))")
    if context.fusions is None or context.fusions:
        calls.append(f"comm_fusion({fusion_config(context.fusions)!a})")
    if context.gradients_mean:
        calls.append("enable_gradients_mean()")
    if context.shard_size:
        calls.append(f"hsdp({context.shard_size}, threshold=0)")
    if context.pipeline_stages > 1:
        stages, scheduler = context.pipeline_stages, context.pipeline_scheduler
        interleave = f"interleave={context.interleaves}"
        calls.append(f"pipeline(stages={stages}, {interleave}, scheduler={scheduler!a})")
    lines = [f"    parallel.{call}\n" for call in calls]
    if context.parameter_broadcast:
        lines.append("    # It has no parameter_broadcast: give all ranks one seed.\n")
    if not context.all_to_all:
        lines.append(
            "    # It exchanges slices; the plan was priced without: use the old interface.\n"
        )
    search = _search(context)
    return _NEW.format(mode=context.mode, search=search, lines="".join(lines))


def _dynamic(context: Context, plan: Plan) -> str:
    if not context.symbols:
        return ""
    calls, shapes = symbol_calls(plan, _width(context, plan))
    behind = label_shapes(plan, _label_width(context, plan), calls)
    lines = "".join(f"    {name} = ms.Symbol({text})\n" for name, text in calls.items())
    dtypes = [plan.graph.tensors[name].dtype for name in shapes]
    dtypes += [dtype for dtype, _ in context.labels]
    tensors = ", ".join(
        f"ms.Tensor(shape=[{', '.join(shape)}], dtype=ms.{_dtype(dtype)})"
        for dtype, shape in zip(dtypes, (*shapes.values(), *behind), strict=True)
    )
    cell = "the cell that takes the labels too" if behind else "the network, which takes no labels,"
    return _DYNAMIC.format(cell=cell, symbols=lines, tensors=tensors)


def _label_width(context: Context, plan: Plan) -> list[tuple[int, ...]]:
    """For each label, among how many ranks its dimensions are split before the network sees it."""
    cuts = [own for _, own in context.labels]
    if context.dataset_strategy == "full_batch":
        return [(1,) * len(own) for own in cuts]
    if context.dataset_strategy == "data_parallel":
        count = plan.devices // context.pipeline_stages
        return [(count, *(1 for _ in own[1:])) for own in cuts]
    return cuts


def _width(context: Context, plan: Plan) -> Mapping[str, tuple[int, ...]]:
    """By input: among how many ranks each dimension is split before the network sees it."""
    strategy = context.dataset_strategy
    whole = {name: (1,) * len(plan.graph.tensors[name].dims) for name in plan.graph.inputs}
    if strategy == "full_batch":
        return whole
    if strategy == "data_parallel":
        count = plan.devices // context.pipeline_stages
        return {name: (count, *ones[1:]) for name, ones in whole.items()}
    given = strategy if isinstance(strategy, tuple) else input_cuts(plan)
    return whole | dict(zip(plan.graph.inputs, given, strict=False))


def _dtype(dtype: str) -> str:
    return {"bool": "bool_"}.get(dtype, dtype if re.fullmatch(r"[a-z]+\d*", dtype) else "float32")
