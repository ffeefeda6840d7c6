"""Which devices of a server may form a job, and which a communication group inside one."""

from collections.abc import Collection, Sequence

from topology.server_file import GroupRule, ServerFile

__all__ = ["group_fault", "job_fault"]


def job_fault(server: ServerFile, devices: Collection[int]) -> str | None:
    """Why a job cannot take these devices of one server, `None` if it can.

    Larger jobs take whole servers, which is not asked here.
    """
    rule = server.placement
    if rule is None:
        return None
    if len(devices) not in rule.on_one_server:
        counts = ", ".join(map(str, rule.on_one_server))
        return f"{len(devices)} devices; a job takes {counts} of one server"
    rules = [each for each in rule.job if each.count == len(devices)]
    return None if not rules else _broken(rules, server, devices)


def group_fault(server: ServerFile, devices: Sequence[Collection[int]]) -> str | None:
    """Why a communication group cannot have these devices, `None` if it can.

    Args:
        server: the template of all servers of the group.
        devices: the local devices of the group on every server that it is on.
    """
    rule = server.placement
    if rule is None or not rule.group:
        return None
    first = set(devices[0])
    if any(set(each) != first for each in devices):
        return "the group has different devices on its servers"
    rules = [each for each in rule.group if each.count == len(first)]
    if not rules:
        counts = ", ".join(map(str, sorted({each.count for each in rule.group})))
        return f"{len(first)} devices of a server; a group takes {counts}"
    return _broken(rules, server, first)


def _broken(rules: Sequence[GroupRule], server: ServerFile, devices: Collection[int]) -> str | None:
    """What all the rules for this number of devices ask for, if none of them is kept."""
    if any(_keeps(rule, server, devices) for rule in rules):
        return None
    told = " or ".join(_told(rule) for rule in rules)
    return f"devices {', '.join(map(str, sorted(devices)))} are not {told}"


def _keeps(rule: GroupRule, server: ServerFile, devices: Collection[int]) -> bool:
    inside = rule.inside is None or any(
        set(devices) <= set(group) for group in server.groups[rule.inside]
    )
    return inside and (rule.distance is None or _in_pairs(set(devices), rule.distance))


def _in_pairs(devices: set[int], distance: int) -> bool:
    """Whether the devices are pairs whose numbers differ by the distance."""
    left = set(devices)
    while left:
        low = min(left)
        if low + distance not in left:
            return False
        left -= {low, low + distance}
    return True


def _told(rule: GroupRule) -> str:
    parts = [f"inside one {rule.inside}"] if rule.inside else []
    parts += [f"in pairs at distance {rule.distance}"] if rule.distance else []
    return " and ".join(parts) or "free"
