"""Words that texts on links are made of, as patterns: units, counts, nouns, places, generations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

__all__ = [
    "BETWEEN", "BOTH_WAYS", "COUNTS", "DEVICES", "EXPLICIT", "GENERATIONS", "INSIDE", "JOINED",
    "NOUNS", "ONE_WAY", "OTHER", "PCIE", "PER_SERVER", "RANGE", "RATE", "SEPARATORS",
    "STRANGE", "THOUSANDS", "UNLINKED", "WORDS", "bytes_per_s",
]  # fmt: skip

THOUSANDS = r"(\d),(\d{3})(?!\d)"
SEPARATORS = r"[;,+|()\[\]\n]|\.\s|\s/\s|\s(?:and|with|plus|&|und)\s"

_NUMBER = r"(?<![\w.])(?:(?P<times>\d{1,3})\s?[x\u00d7*]\s?)?(?P<number>\d+(?:\.\d+)?)\s?-?"
_PER_SECOND = (
    r"\s?/\s?[sS](?:ec(?:ond)?)?(?![a-zA-Z])|[pP][sS](?![a-zA-Z])|\s[pP]er\s[sS]ec(?:ond)?"
)
RATE = (
    _NUMBER + r"(?:(?P<prefix>[kKmMgGtT])(?P<binary>i)?"
    r"(?P<what>[bB]its?|BITS?|[bB]ytes?|BYTES?|[bB])(?P<per>" + _PER_SECOND + r")"
    r"|(?P<word>[kKmMgGtT](?:ilo|ega|iga|era)(?:bit|byte)s?)\s?(?:/\s?s|per\ssec(?:ond)?)"
    r"|(?P<ethernet>[gG](?:b|ig)?E|[gG]igabit(?=\s[eE]thernet)|Gb(?:it)?(?!\s?/))(?![a-zA-Z])"
    r"|(?P<bare>[GT])(?![\w/]))"
)
"""A rate: `200 Gb/s`, `25 GB/s`, `3.2 Tbps`, `100GbE`, `400G`, `8x200 Gbit/s`."""

STRANGE = (
    r"(?<![\w.])\d+(?:\.\d+)?\s?(?:[gGM]T/s|us|\u00b5s|ns|ms|[gGM]baud|[gGM]pps|flits/\w+)"
    r"(?![a-zA-Z])"
)
"""Numbers of units that say nothing here."""

RANGE = r"\d\s?(?:-|\u2013|\bto\b|\bor\b)\s?\d+(?:\.\d+)?\s?[kKmMgGtT]i?[bB]\w*/?s?"
"""Of two rates nobody knows which one holds."""

_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def bytes_per_s(match: re.Match[str]) -> float:
    """Bytes per second of a match of `RATE`.

    A small b is a bit and a large one a byte, but in capitals alone (`400 GBPS`) it says nothing:
    networks are sold in bits.
    """
    prefix = (match["prefix"] or match["word"] or match["ethernet"] or match["bare"])[0].lower()
    what, per = match["what"] or match["word"] or "bit", match["per"] or ""
    large = what == "B" or "byte" in what.lower()
    bits = not large or (what == "B" and per == "PS")
    scale = _SCALE[prefix] * (1.024 if match["binary"] else 1.0)
    return float(match["number"]) * scale / (8.0 if bits else 1.0)


WORDS = {
    "single": 1, "one": 1, "dual": 2, "two": 2, "double": 2, "four": 4, "quad": 4, "six": 6,
    "eight": 8, "sixteen": 16,
}  # fmt: skip

_UNIT = (
    r"(?:gpu|npu|device|card|chip|accelerator|xpu|rank|die|gcd|a100|h100|h200|b200|v100|"
    r"910[abc]\d?)"
)
_SOME = r"(?<![\w.])(\d{1,3}|" + "|".join(WORDS) + r")"
_PORT = (
    r"(?:nic|port|hca|adapter|rail|interface|link|lane|card|nvlink|uplink|cx-?\d|connectx-?\d)s?"
)
_NETWORK = (
    r"(?:hdr|ndr|edr|xdr|fdr|qdr|infiniband|ib|roce|efa|nics?|hcas?|ports?|connectx|cx-?\d|"
    r"slingshot|opa|omni|ethernet|mellanox|bluefield|rdma|nvlinks?|links?|rails?)"
)
COUNTS = (
    _SOME + r"\s?[x\u00d7*]\s?(?=\d+(?:\.\d+)?\s?[a-z])",
    _SOME + r"\s?[x\u00d7*]\s?(?=" + _NETWORK + r")",
    r"[a-z]\s?[x\u00d7]\s?(\d{1,3})(?![\w])",
    _SOME
    + r"(?!\s?-?[kmgt]i?b)[- ](?:(?!"
    + _UNIT
    + r"s?[- ])[a-z0-9/.-]+[- ]){0,6}?"
    + _PORT
    + r"(?![a-z])(?!\s?gen)",
)
"""Counts of ports: before a rate, before a name, behind either, before a noun."""

_HOST = r"(?:node|server|host|machine|box|system|vm|instance|blade|tray|chassis)"
_EACH = r"(?:per|for each|for every|each|every|a(?=\s(?:node|server|gpu))|/)\s?"
NOUNS = {
    "device": rf"{_EACH}{_UNIT}(?![a-z])|(?<![a-z]){_UNIT}/{_UNIT}",
    "server": rf"{_EACH}{_HOST}(?![a-z])|aggregate|in total|total of",
    "port": rf"{_EACH}{_PORT}(?![a-z])|\beach\b(?!\s(?:{_UNIT}|{_HOST}))|apiece|per-port|per-link",
}
DEVICES = (
    _SOME + r"(?:\s?[x\u00d7])?\s?(?:[a-z0-9-]+\s){0,2}?"
    rf"{_UNIT}s?(?:-[a-z0-9]+)*\s?(?:[a-z0-9+-]+\s){{0,3}}?(?:per|in each|/)\s?{_HOST}(?![a-z])"
    r"|" + _SOME + rf"[- ]{_UNIT} (?:nodes|servers|hosts|{_HOST})"
)
"""`8x A100 NVLink per node`, `4 GPUs per server`, `4-GPU nodes`."""

EXPLICIT = {
    "inside": rf"intra[- ]?{_HOST}|(?:within|inside|in) (?:a |an |the |each |one )?{_HOST}|"
    rf"scale-?up|gpu[- ]to[- ]gpu|{_HOST}-internal|on-?node",
    "between": rf"inter[- ]?{_HOST}|(?:between|across|among) (?:the )?{_HOST}e?s|scale-?out|"
    rf"{_HOST}[- ]to[- ]{_HOST}|{_HOST}-{_HOST}|cross[- ]?{_HOST}|off-?node|multi-?node",
}
JOINED = r"nvlink|nvswitch|nvl\d+|hccs|(?<![a-z])ici(?![a-z])|infinity fabric|xgmi"
"""Links of devices, beside PCIe."""

INSIDE = rf"{EXPLICIT['inside']}|{JOINED}|pci-?\s?e(?:xpress)?"
BETWEEN = (
    rf"{EXPLICIT['between']}|infiniband|(?<![a-z])(?:ib|roce(?:v2)?|rdma|efa(?:v\d)?|dcn|opa|nics?|hcas?)"
    r"(?![a-z])|ethernet|gbe|omni-?path|slingshot|connectx|(?<![a-z])cx-?[4-9]|"
    r"(?<![a-z])(?:[hnexfq]dr)(?:\d+)?(?![a-z])|"
    r"(?<!infinity )(?<!nvlink )fabric|network|tcpx|interconnect|bluefield|srd(?![a-z])"
)
OTHER = (
    r"storage|lustre|(?<![a-z])nfs|nvme|management|front-?end|memory|hbm|(?<![a-z])d?ddr|dram|disk|"
    r"filesystem|file system|checkpoint|out-of-band"
)
BOTH_WAYS = r"bi-?\s?directional|both directions|both ways|bidir|duplex|(?<![a-z])bi(?![a-z])"
ONE_WAY = (
    r"uni-?\s?directional|one[- ]direction|one[- ]way|(?:per|each|in each|every) (?:direction|way)|"
    r"per dir(?![a-z])|/dir"
)
PER_SERVER = r"(?<![a-z])efa|tcpx|aggregate|in total"
"""Networks of clouds, whose rates are stated for an instance."""

_GBIT = 1e9 / 8.0
GENERATIONS = tuple(
    (pattern, rate * _GBIT)
    for pattern, rate in (
        (r"(?<![a-z])hdr-?100(?!\d)", 100), (r"(?<![a-z])ndr-?200(?!\d)", 200),
        (r"(?<![a-z])xdr(?![a-z])", 800), (r"(?<![a-z])ndr(?:-?400)?(?![a-z\d])", 400),
        (r"(?<![a-z])hdr(?:-?200)?(?![a-z\d])", 200), (r"(?<![a-z])edr(?![a-z])", 100),
        (r"(?<![a-z])fdr(?![a-z])", 56), (r"(?<![a-z])qdr(?![a-z])", 32),
        (r"(?:connectx|(?<![a-z])cx)-?\s?8", 800), (r"(?:connectx|(?<![a-z])cx)-?\s?7", 400),
        (r"(?:connectx|(?<![a-z])cx)-?\s?6", 200), (r"(?:connectx|(?<![a-z])cx)-?\s?5", 100),
        (r"slingshot[- ]?11", 200), (r"slingshot[- ]?10", 100), (r"omni-?path|(?<![a-z])opa", 100),
    )
)  # fmt: skip
"""Bytes per second of a port by the name of its generation, in one direction.

Source: InfiniBand Trade Association, roadmap of four-lane ports; makers' data sheets."""

PCIE = r"pci-?\s?e(?:xpress)?\s?(?:gen\s?)?(?:v?(\d)(?:\.0)?)?(?!\d)(?:\s?x16)?"
UNLINKED = r"(?:no|without|w/o|not) (?:any )?(?:nvlink|nvswitch|hccs|xgmi)"
