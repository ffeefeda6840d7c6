"""The order of a recorded step: what is made again, gathered ahead, waited for late.

Collectives of torch start where they stand in a graph and run beside it until something waits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
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


PARAMETER = "parameter"
"""In the meta of a parameter as it rests, or of what is made of one without a message: whether the
backward pass gathers it again.
"""


def parameters_marked(graph: Any, again: Sequence[bool]) -> None:
    """Mark the first operands, and what is made of one of them without a message. A graph that is
    cut out of this one keeps the marks, also where such a node becomes its operand.

    Args:
        graph: a recorded step.
        again: of every parameter, in order, whether the backward pass gathers it again.
    """
    operands = [node for node in graph.nodes if node.op == "placeholder"]
    for node, flag in zip(operands, again, strict=False):
        node.meta[PARAMETER] = flag
    made, gathered = _made_of_parameters(graph)
    for node in made.keys() - gathered:
        node.meta[PARAMETER] = made[node]


def _made_of_parameters(graph: Any) -> tuple[dict[Any, bool], set[Any]]:
    """What is made of marked operands, with their marks, and those of it that were gathered."""
    operands = (node for node in graph.nodes if node.op == "placeholder")
    made = {node: bool(node.meta[PARAMETER]) for node in operands if PARAMETER in node.meta}
    gathered: set[Any] = set()
    for node in graph.nodes:
        sources = node.all_input_nodes
        if node.op != "call_function" or not sources or not all(s in made for s in sources):
            continue
        whole = all(s in gathered for s in sources)
        if len(sources) == 1 or whole or _name(node).startswith("cat"):  # buckets join parameters
            made[node] = all(made[s] for s in sources)
            if _is_gather(node) or whole:
                gathered.add(node)
    return made, gathered


def computed_again(joint: Any, remade: Collection[str]) -> None:
    """Let the backward pass of a joint graph gather marked parameters again, and make the results
    of some operators again, instead of keeping them.
    """
    backward = _after(joint, _is_backward)
    made, gathered = _made_of_parameters(joint)
    again = {node for node in gathered if made[node]}
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


def unread_dropped(graph: Any) -> None:
    """Drop what nothing reads, messages too: torch keeps what leads to a message of the forward
    pass that the backward pass does not read. Every rank drops the same.
    """
    graph.eliminate_dead_code(lambda node: node.is_impure() and not _is_message(node))


def gathers_of(graph: Any) -> list[Any]:
    """Gathers of what is made of parameters without a message, in order."""
    _, gathered = _made_of_parameters(graph)
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
        follows = _is_wait(node) or (not _is_message(node) and _waits_above(node))
        if follows and node.users and all(u is output or u in leaving for u in node.users):
            leaving.add(node)
    for node in [n for n in graph.nodes if n in leaving]:
        output.prepend(node)
    place = {node: number for number, node in enumerate(graph.nodes)}
    for node in [n for n in graph.nodes if _is_wait(n) and n not in leaving]:
        if node.users:
            min(node.users, key=place.__getitem__).prepend(node)


def _waits_above(node: Any) -> bool:
    """Whether all that a node reads is a message that is waited for, or made of it alone."""
    while len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
        if _is_wait(node):
            return True
    return False
