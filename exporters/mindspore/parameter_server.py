"""A plan trained with MindSpore's parameter server: the roles, their environment, the parameters.

Source: MindSpore 2.10.0, `parallel/_ps_context.py`, and its tutorial on the parameter server up to
2.4: graph mode only, no mpirun, a parameter of at most 2^31 - 1 bytes, `set_ps_context` before
`init`. 2.10.0 still takes the roles, but its parameters have no `set_param_ps`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from exporters.errors import ExportError
from exporters.mindspore.launch_scripts import NON_SINK
from exporters.mindspore.symbols import planned_symbols
from exporters.places import Places, places_of
from exporters.python_tables import text_tuple
from exporters.settings import Made, Setting, Settings, fault
from exporters.stages import refuse_stages
from ir.dtypes import dtype_bytes
from ir.ops.indexing import ROW_LOOKUPS
from ir.plan import Plan, PlannedTensor
from ir.violations import Violation

__all__ = ["SETTINGS", "files"]

MOST_BYTES = 2**31 - 1
"""Of one parameter on the servers."""

SETTINGS = (
    Setting("parameters", "lookup|all|PATTERN", "which parameters the servers hold: tables that "
            "are looked up in, if there are any, else all"),
    Setting("servers", "N", "parameter servers, 1 by default"),
    Setting("host", "ADDRESS", "of the scheduler, 127.0.0.1 by default"),
    Setting("port", "1024 to 65535", "of the scheduler, 8118 by default"),
    Setting("script", "FILE", "what every process runs, train.py by default"),
    Setting("arguments", "TEXT", "what the script is given"),
    Setting("init_in_server", "true|false", "tables of EmbeddingLookup on the CPU begin there"),
)  # fmt: skip

_SCRIPT = """#!/bin/bash
# Starts a training with parameter servers: 1 scheduler, {servers} servers, {workers} workers.
# Written by `planner export --format parameter-server`.
#   bash run_parameter_server.sh all          everything on this machine
#   bash run_parameter_server.sh scheduler    on the machine with the address {host}
#   bash run_parameter_server.sh server 0     each server by its number, from 0 on
#   bash run_parameter_server.sh worker 0     each worker by its number, from 0 on
set -euo pipefail
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
script={script}
export MS_SERVER_NUM={servers}
export MS_WORKER_NUM={workers}
export MS_SCHED_HOST={host}
export MS_SCHED_PORT={port}
{environment}
start() {{
    local role=$1 number=$2 name=$3 card=$4
    mkdir -p "$name"
    (
        cd "$name"
        export MS_ROLE=$role MS_NODE_ID=$number
        if [[ -n $card ]]; then
            export DEVICE_ID=$card
        fi
        exec python "$script"{arguments}
    ) > "$name/train.log" 2>&1 &
}}

case ${{1:-all}} in
scheduler) start MS_SCHED 0 scheduler "" ;;
server) start MS_PSERVER "${{2:?number of the server}}" "server$2" "" ;;
worker) start MS_WORKER "${{2:?number of the worker}}" "worker$2" $(( $2 % {cards} )) ;;
all)
    start MS_SCHED 0 scheduler ""
    for (( i = 0; i < MS_SERVER_NUM; i++ )); do start MS_PSERVER "$i" "server$i" ""; done
    for (( i = 0; i < MS_WORKER_NUM; i++ )); do
        start MS_WORKER "$i" "worker$i" "$(( i % {cards} ))"
    done
    ;;
*)
    echo "no role $1; there are scheduler, server, worker and all" >&2
    exit 2
    ;;
esac
status=0
for pid in $(jobs -p); do
    wait "$pid" || status=$?
done
exit "$status"
"""

_MODULE = '''"""Which parameters of a network the parameter servers hold and update.

Written by `planner export --format parameter-server`. In the script that every role runs:

    from parameter_server import prepare, start

    start()                   # before anything is sent
    network = ...
    for line in prepare(network):
        print(line)           # a parameter that the network does not have

The parameters that are not listed are updated by the workers themselves, after an all-reduce.
"""

import mindspore as ms
from mindspore.communication import init

ON_SERVERS = {names}
INIT_IN_SERVER = {init}


def start():
    """Graph mode, the parameter server, and the connections, in the order that MindSpore wants."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_ps_context(enable_ps=True)
    init()


def prepare(network):
    """Give the listed parameters to the servers; returns a line for each that is missing."""
    found = {{parameter.name: parameter for parameter in network.get_parameters()}}
    for name in ON_SERVERS:
        if name in found:
            if not hasattr(found[name], "set_param_ps"):
                what = "this MindSpore gives no parameters to servers: 2.4 does, 2.10 does not"
                raise RuntimeError(what)
            found[name].set_param_ps(init_in_server=INIT_IN_SERVER)
    missing = [name for name in ON_SERVERS if name not in found]
    return [f"{{name}}: the network has no such parameter" for name in missing]
'''


def files(plan: Plan, settings: Settings) -> Made:
    """The shell script of the roles and the module for the network.

    Raises:
        ExportError: a parameter cannot be on a server, or a setting cannot be.
    """
    what = "parameter servers serve workers that compute a step as one batch, the plan cuts it"
    refuse_stages(plan, what, "plan a --batch that fits as one")
    chosen = _chosen(plan, settings)
    violations = tuple(_violations(plan, chosen))
    if violations:
        raise ExportError(*violations)
    module = _MODULE.format(
        names=_listed([_name(plan, each) for each in chosen]),
        init=settings.flag("init_in_server", default=False),
    )
    made = {"run_parameter_server.sh": _script(plan, settings), "parameter_server.py": module}
    return Made(made, tuple(_notes(plan, chosen)))


def _listed(names: list[str]) -> str:
    return "(\n" + "".join(f"    {name!a},\n" for name in names) + ")" if names else text_tuple(())


def _script(plan: Plan, settings: Settings) -> str:
    places: Places = places_of(plan)
    script = shlex.quote(settings.text("script", "train.py"))
    host = settings.text("host", "127.0.0.1")
    if not (host.isascii() and host and all(c.isalnum() or c in ".-:_" for c in host)):
        raise fault(f"{host[:80]!r} is no address", "host", "give a name or an address")
    try:
        words = shlex.split(settings.text("arguments", ""))
    except ValueError as error:
        raise fault("quotes that do not close", "arguments", "close them") from error
    environment = NON_SINK if planned_symbols(plan) else {}
    return _SCRIPT.format(
        servers=settings.number("servers", 1, 1, 1024),
        workers=plan.devices,
        host=host,
        port=settings.number("port", 8118, 1024, 65535),
        script=script if script.startswith("/") else f"$here/{script}",
        arguments="".join(f" {shlex.quote(word)}" for word in words),
        cards=places.cards,
        environment="".join(f"export {name}={value}\n" for name, value in environment.items()),
    )


def _chosen(plan: Plan, settings: Settings) -> tuple[PlannedTensor, ...]:
    lookups = [op for op in plan.graph.ops if op.kind in ROW_LOOKUPS]
    tables = {name for op in lookups for name in op.inputs[:1] if name}
    looked_up = tuple(each for each in plan.parameters if each.name in tables)
    wanted = settings.text("parameters", "lookup" if looked_up else "all")
    if wanted == "all":
        return plan.parameters
    if wanted == "lookup":
        found = looked_up
    else:
        found = tuple(each for each in plan.parameters if fnmatchcase(_name(plan, each), wanted))
    if not found:
        names = [_name(plan, each) for each in plan.parameters[:5]]
        what = f"no parameter is {wanted[:80]!r}"
        raise fault(what, "parameters", f"give all, or a pattern for {', '.join(names)} and others")
    return found


def _name(plan: Plan, tensor: PlannedTensor) -> str:
    return plan.graph.tensors[tensor.name].source or tensor.name


def _violations(plan: Plan, chosen: tuple[PlannedTensor, ...]) -> Iterator[Violation]:
    if not plan.trains:
        fix = "plan with --phase train"
        yield Violation("a parameter server trains; the plan is one of inference", "the plan", fix)
    for each in chosen:
        place = f"parameter {_name(plan, each)!r}"
        nbytes = _bytes(each)
        if nbytes > MOST_BYTES:
            what = f"it has {nbytes} bytes, a parameter on a server {MOST_BYTES} at most"
            yield Violation(what, place, "split the table, or leave it to the workers")
        layout = each.used or each.layout
        if max(layout.shards(plan.axis_sizes), default=1) > 1:
            what = "the plan splits it over devices; a server holds it whole"
            fix = "hold it whole with --pin on its operator, or leave it out with --set parameters"
            yield Violation(what, place, fix)


def _bytes(tensor: PlannedTensor) -> int:
    return round(math.prod(tensor.dims) * dtype_bytes(tensor.dtype))


def _notes(plan: Plan, chosen: tuple[PlannedTensor, ...]) -> Iterator[str]:
    moved = sum(_bytes(each) for each in chosen)
    yield (
        f"{len(chosen)} of {len(plan.parameters)} parameters are on the servers: every worker "
        f"pushes {moved / 2**20:.4g} MiB of gradients and pulls as much in a step; the plan's "
        "times have all-reduces instead"
    )
    yield "MindSpore 2.4 gives parameters to servers (set_param_ps), 2.10 does not any more"
