"""Texts of the scripts that start the processes of a job. User's words are quoted for the shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from exporters.places import Places

__all__ = ["by_mpirun", "by_msrun", "by_rank_table"]

START_WINDOW_S = 120
"""Within it all servers are to be started. Source: MindSpore's tutorial on several servers."""

_ON_EVERY = f"Run it on every server within {START_WINDOW_S} s, with the server's number"

_HEAD = """#!/bin/bash
# Starts {devices} processes, {where}.
# Written by `planner export --format launch`.
# {usage}
set -euo pipefail
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
script={script}
"""

_SERVER_ARGUMENT = """server=${{1:?"which server: 0 to {last}"}}
if ! [[ $server =~ ^[0-9]+$ ]] || (( server > {last} )); then
    echo "no server $server; there are 0 to {last}" >&2
    exit 2
fi
"""

_RANK_TABLE = """{head}{argument}export RANK_TABLE_FILE=$here/rank_table.json
export RANK_SIZE={devices}
export HCCL_CONNECT_TIMEOUT=${{HCCL_CONNECT_TIMEOUT:-{window}}}
ranks=({ranks})
cards=({cards})
status=0
pids=()
for place in $(seq 0 {last_card}); do
    export RANK_ID=${{ranks[{index}]}}
    export DEVICE_ID=${{cards[{index}]}}
    folder=$PWD/device$RANK_ID
    rm -rf "$folder"
    mkdir -p "$folder"
    env > "$folder/env.log"
    (cd "$folder" && exec python "$script"{arguments}) > "$folder/train.log" 2>&1 &
    pids+=($!)
done
for pid in "${{pids[@]}}"; do
    wait "$pid" || status=$?
done
if (( status )); then
    echo "training failed; see device*/train.log" >&2
fi
exit "$status"
"""

_MSRUN = """{head}{argument}{environment}exec msrun \\
    --worker_num={devices} --local_worker_num={cards} \\
    --master_addr={address} --master_port={port} \\
    {node}--cluster_time_out={window} --log_dir=msrun_log --join=True \\
    "$script"{arguments}
"""

_MPIRUN = """{head}{environment}root=()
if [[ $(id -u) == 0 ]]; then
    root=(--allow-run-as-root)
fi
exec mpirun "${{root[@]}}" -n {devices} {hosts}\\
    --output-filename mpirun_log --merge-stderr-to-stdout{pass_on} \\
    python "$script"{arguments}
"""

NON_SINK = {"GRAPH_OP_RUN": "1", "HCCL_WHITELIST_DISABLE": "1"}
"""Environment of a run that does not sink the dataset."""


def by_rank_table(places: Places, script: str, arguments: str, servers: Sequence[str]) -> str:
    """One process for each card of a server, which find each other through the rank table."""
    several = places.servers > 1
    cards = [card for server in range(places.servers) for card in places.in_server(server)]
    named = ", ".join(f"{i} {name}" for i, name in enumerate(servers[:4]))
    more = " and so on" if len(servers) > 4 else ""
    usage = f"{_ON_EVERY}: {named}{more}."
    return _RANK_TABLE.format(
        head=_head(places, script, usage),
        argument=_argument(places),
        devices=len(cards),
        window=START_WINDOW_S,
        ranks=" ".join(str(rank) for rank, _ in cards),
        cards=" ".join(str(card) for _, card in cards),
        last_card=places.cards - 1,
        index=f"server * {places.cards} + place" if several else "place",
        arguments=_arguments(arguments),
    )


def by_msrun(
    places: Places, script: str, arguments: str, first: str, port: int, *, sinks: bool
) -> str:
    """MindSpore's own launcher, once on every server."""
    several = places.servers > 1
    usage = f"{_ON_EVERY}; 0 is {first}, or what FIRST_SERVER says."
    address = f'"${{FIRST_SERVER:-{first}}}"' if several else "127.0.0.1"
    return _MSRUN.format(
        head=_head(places, script, usage),
        argument=_argument(places),
        environment=_environment(places, sinks=sinks),
        devices=places.servers * places.cards,
        cards=places.cards,
        address=address,
        port=port,
        node='--node_rank="$server" ' if several else "",
        window=START_WINDOW_S if several else 600,
        arguments=_arguments(arguments),
    )


def by_mpirun(places: Places, script: str, arguments: str, *, sinks: bool) -> str:
    """OpenMPI, on the first server alone."""
    several = places.servers > 1
    usage = "Run it on the first server; the others need the same folder and no password."
    names = [*(NON_SINK if not sinks else ()), *_visible(places)]
    return _MPIRUN.format(
        head=_head(places, script, usage),
        environment=_environment(places, sinks=sinks),
        devices=places.servers * places.cards,
        hosts='--hostfile "$here/hostfile" ' if several else "",
        pass_on="".join(f" -x {name}" for name in names) if several else "",
        arguments=_arguments(arguments),
    )


def _head(places: Places, script: str, usage: str) -> str:
    servers = f"{places.servers} servers" if places.servers > 1 else "one server"
    path = shlex.quote(script)
    return _HEAD.format(
        devices=places.servers * places.cards,
        where=f"{places.cards} on each of {servers}" if places.servers > 1 else f"on {servers}",
        usage=usage if places.servers > 1 else "Run it on the server.",
        script=path if script.startswith("/") else f"$here/{path}",
    )


def _argument(places: Places) -> str:
    return _SERVER_ARGUMENT.format(last=places.servers - 1) if places.servers > 1 else ""


def _arguments(text: str) -> str:
    """Words for the script, each quoted."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _visible(places: Places) -> dict[str, str]:
    """The cards in the order of the ranks, where these do not ascend."""
    order = places.card_order
    if order == tuple(range(places.cards)):
        return {}
    name = "ASCEND_RT_VISIBLE_DEVICES" if "ascend" in places.chip else "CUDA_VISIBLE_DEVICES"
    return {name: ",".join(map(str, order))}


def _environment(places: Places, *, sinks: bool) -> str:
    found = {**({} if sinks else NON_SINK), **_visible(places)}
    return "".join(f"export {name}={value}\n" for name, value in found.items())
