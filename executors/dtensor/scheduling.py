"""The order of a recorded step: what is made again, gathered ahead, waited for late.

Collectives of torch start where they stand in a graph and run beside it until something waits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any


def _name(node: Any) -> str:
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""


def _is_gather(node: Any) -> bool:
    return _name(node).startswith("all_gather_into_tensor")


def _is_wait(node: Any) -> bool:
    return _name(node).startswith("wait_tensor")


def _is_message(node: Any) -> bool:
    space = getattr(node.target, "namespace", "") if node.op == "call_function" else ""
    return space in {"_c10d_functional", "_dtensor"}


def _made_of_parameters(graph: Any, count: int) -> tuple[set[Any], set[Any]]:
    """What is made of one of the first operands alone, and those of it that have been gathered."""
    first = {node for node in graph.nodes if node.op == "placeholder" and _number(node) <= count}
    made, gathered = set(first), set()
    for node in graph.nodes:
        sources = node.all_input_nodes
        if node.op != "call_function" or not sources or not all(s in made for s in sources):
            continue
        whole = all(s in gathered for s in sources)
        if len(sources) == 1 or whole or _name(node).startswith("cat"):  # buckets join parameters
            made.add(node)
            if _is_gather(node) or whole:
                gathered.add(node)
    return made, gathered


def _number(node: Any) -> int:
    """Place of an operand of the step; those of the backward pass are behind all."""
    kind, _, number = str(node.name).rpartition("_")
    return int(number) if kind == "primals" and number.isdigit() else 10**9


def computed_again(joint: Any, parameters: int, remade: Collection[str]) -> None:
    """Let the backward pass of a joint graph make gathered parameters and the results of some
    operators again, instead of keeping them.
    """
    backward = _after(joint, _is_backward)
    _, gathered = _made_of_parameters(joint, parameters)
    again = set(gathered)
    for node in joint.nodes:
        if node in backward or node.op != "call_function" or _is_message(node):
            continue
        sources, operator = node.all_input_nodes, _operator(node)
        follows = not operator and bool(sources) and all(s in again for s in sources)
        if operator in remade or follows:  # what no operator does is a view of what one made
            again.add(node)
    copies: dict[Any, Any] = {}
    for node in list(joint.nodes):
        if node in backward and node.op == "call_function":
            for source in node.all_input_nodes:
                if source in again:
                    node.replace_input_with(source, _copied(joint, source, again, copies, node))


def _is_backward(node: Any) -> bool:
    """Whether torch made a node for the backward pass; gradients come in as tangents."""
    tagged = node.meta.get("partitioner_tag") == "is_backward"
    return tagged or str(node.name).startswith("tangents_")


def _operator(node: Any) -> str:
    """The operator of the plan that a node is a part of."""
    return str((node.meta.get("custom") or {}).get("operator", ""))


def _copied(graph: Any, node: Any, again: set[Any], copies: dict[Any, Any], before: Any) -> Any:
    if node not in again:
        return node
    if node not in copies:
        sources = {s: _copied(graph, s, again, copies, before) for s in node.all_input_nodes}
        with graph.inserting_before(before):
            copies[node] = graph.node_copy(node, lambda source: sources[source])
        copies[node].meta["partitioner_tag"] = "is_backward"
    return copies[node]


def _after(graph: Any, begins: Callable[[Any], bool]) -> set[Any]:
    """Nodes that depend on some."""
    found: set[Any] = set()
    for node in graph.nodes:
        if begins(node) or any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def gathers_of(graph: Any) -> list[Any]:
    """Gathers of what is made of parameters alone and no message brings, in order."""
    count = sum(node.op == "placeholder" for node in graph.nodes)
    _, gathered = _made_of_parameters(graph, count)
    found = (node for node in graph.nodes if _is_gather(node) and node in gathered)
    return [node for node in found if not any(_is_message(each) for each in chain(node)[:-1])]


def gathered_ahead(graph: Any) -> None:
    """Start every gather of a parameter before the one in front of it is waited for."""
    for before, node in itertools.pairwise(gathers_of(graph)):
        place = {each: number for number, each in enumerate(graph.nodes)}
        wait = next((user for user in before.users if _is_wait(user)), None)
        for each in chain(node):
            if wait is not None and place[each] > place[wait]:
                wait.prepend(each)


def chain(node: Any) -> list[Any]:
    """A gather with all that prepares it, from its parameters on, in order."""
    found, left = {node}, [node]
    while left:
        for source in left.pop().all_input_nodes:
            if source.op != "placeholder" and source not in found:
                found.add(source)
                left.append(source)
    return [each for each in node.graph.nodes if each in found]


def waiting_late(graph: Any) -> None:
    """Wait for every message where its result is first read, and read late what only leaves."""
    output = next(node for node in graph.nodes if node.op == "output")
    leaving: set[Any] = set()
    for node in reversed(list(graph.nodes)):
        follows = _is_wait(node) or (len(node.all_input_nodes) == 1 and _waits_above(node))
        if follows and node.users and all(u is output or u in leaving for u in node.users):
            leaving.add(node)
    for node in [n for n in graph.nodes if n in leaving]:
        output.prepend(node)
    place = {node: number for number, node in enumerate(graph.nodes)}
    for node in [n for n in graph.nodes if _is_wait(n) and n not in leaving]:
        if node.users:
            min(node.users, key=place.__getitem__).prepend(node)


def _waits_above(node: Any) -> bool:
    """Whether what a node reads is a message that is waited for, or made of it alone."""
    source = node.all_input_nodes[0]
    while not _is_wait(source):
        if len(source.all_input_nodes) != 1:
            return False
        source = source.all_input_nodes[0]
    return True
