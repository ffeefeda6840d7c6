"""How a value is spelled in a setting, read and written by one entry each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from ir.recipes.quantities import Value

__all__ = ["FORMS", "Form", "Scalar", "same_scalar", "spelled"]

Scalar: TypeAlias = "str | int | float | bool | list[Scalar] | None"
"""What a file holds at one place."""
_MOST_DIGITS = 20
_MOST_CHUNKS = 2**14
_YES = frozenset({"true", "1", "yes", "on"})
_NO = frozenset({"false", "0", "no", "off", "null"})


@dataclass(frozen=True, slots=True)
class Form:
    """One spelling."""

    read: Callable[[Scalar], Value | None]
    """None where the text is no such value."""
    write: Callable[[Value], Scalar]


def spelled(value: Scalar) -> str:
    """A scalar as text: of small letters where it is a word that files spell in several ways."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        parts = (f"[{spelled(v)}]" if isinstance(v, list) else spelled(v) for v in value)
        return ",".join(parts)
    text = str(value).strip()
    return text.lower() if text.lower() in _YES | _NO else text


def same_scalar(one: Scalar, other: Scalar) -> bool:
    """Whether two spellings say the same: 1 and "1", `True` and `true`, `1.0` and 1."""
    first, second = spelled(one).lower(), spelled(other).lower()
    if first == second or {first, second} <= {"null", ""}:
        return True
    numbers = _number(one), _number(other)
    return None not in numbers and numbers[0] == numbers[1]


def _number(value: Scalar) -> Fraction | None:
    text = spelled(value).replace("_", "")
    if len(text) > _MOST_DIGITS or not re.fullmatch(
        r"[-+]?[0-9.]+(e[-+]?[0-9]{1,2})?", text, re.IGNORECASE
    ):
        return None
    try:
        return Fraction(text)
    except ValueError:
        return None


def _whole(value: Scalar) -> Value | None:
    found = _number(value)
    return found if found is not None and found.denominator == 1 and found >= 0 else None


def _positive(value: Scalar) -> Value | None:
    found = _number(value)
    return found if found is not None and found > 0 else None


def _plain_number(value: Value) -> Scalar:
    if not isinstance(value, Fraction):
        return str(value)
    return int(value) if value.denominator == 1 else float(value)


def _decimal(value: Value) -> Scalar:
    return float(value) if isinstance(value, Fraction) else str(value)


def _first_number(value: Scalar) -> Value | None:
    found = re.search(r"[0-9]{1,9}", spelled(value))
    return Fraction(found.group()) if found else None


def _truth(value: Scalar) -> Value | None:
    text = spelled(value).lower()
    return "yes" if text in _YES else "no" if text in _NO else None


def _untruth(value: Scalar) -> Value | None:
    found = _truth(value)
    return {"yes": "no", "no": "yes"}.get(str(found))


def _numbers(value: Scalar) -> Value | None:
    parts = re.split(r"[,\s]+", spelled(value).strip("[]() "))
    if (
        not parts
        or len(parts) > _MOST_CHUNKS
        or not all(re.fullmatch("[0-9]{1,9}", p) for p in parts)
    ):
        return None
    return tuple(map(int, parts))


def _signed(value: Scalar) -> Value | None:
    parts = re.split(r"[,\s]+", spelled(value).strip("[]() "))
    if len(parts) > _MOST_CHUNKS or not all(re.fullmatch("-?[0-9]{1,6}", p) for p in parts):
        return None
    return tuple(map(int, parts))


def _text(value: Scalar) -> Value | None:
    return spelled(value) if value is not None else None


def _stage_numbers(value: Scalar) -> Value | None:
    """Numbers of layers by stage; a truth value is none."""
    return _numbers(value) if isinstance(value, list) else None


def _listed(value: Value) -> Scalar:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_CONVERTERS = {"NVFP4": "fp4", "MXFP8": "mxfp8", "Float8": "fp8"}


def _titan_converters(value: Scalar) -> Value | None:
    """The type of products by what converts them: `Float8LinearConverter.Config()`."""
    text = spelled(value)
    return next((kind for name, kind in _CONVERTERS.items() if name in text), None)


def _flash_within(value: Scalar) -> Value | None:
    """Whether `[[["flash"], 24]]` or a word names flash attention."""
    return "flash" if "flash" in spelled(value) else "unfused"


def _dense_first(value: Scalar) -> Value | None:
    """`([0]*3+[1]*58)` says 3 layers without experts before those with; 1 says none."""
    text = spelled(value).replace(" ", "").strip("\"'()")
    found = re.fullmatch(r"\[0\]\*([0-9]{1,4})\+\[1\]\*[0-9]{1,4}", text)
    if found:
        return Fraction(found.group(1))
    if isinstance(value, list):
        firsts = spelled(value).split(",1")[0]
        return Fraction(firsts.count("0")) if set(spelled(value)) <= set("01,") else None
    return Fraction(0) if text in {"1", "-1"} else None


def _titan_parts(value: Scalar) -> Value | None:
    """Layers of every part, from the names of its modules."""
    if not isinstance(value, list) or not all(isinstance(part, list) for part in value):
        return None
    return tuple(
        sum(str(name).startswith("layers.") for name in part)
        for part in value
        if isinstance(part, list)
    )


def _written_titan_parts(value: Value) -> Scalar:
    counts = value if isinstance(value, tuple) else ()
    parts: list[Scalar] = []
    start = 0
    for count in counts:
        parts.append([f"layers.{layer}" for layer in range(start, start + count)])
        start += count
    first, last = parts[0], parts[-1]
    if isinstance(first, list) and isinstance(last, list):
        first.insert(0, "tok_embeddings")
        last.extend(["norm", "output"])
    return parts


def _megatron_layout(value: Scalar) -> Value | None:
    """Layers of every chunk of `Et*3|(tt|)*29,m|L`; a list of lists of names says the same.

    Source: Megatron-LM, `pipeline_parallel_layer_layout.py`.
    """
    if isinstance(value, list):
        return tuple(spelled(part).split(",").count("decoder") for part in value)
    text = spelled(value).replace(",", "").replace(" ", "")
    if len(text) > _MOST_CHUNKS or not re.fullmatch(r"[EtmLx|()*0-9]+", text):
        return None
    for pattern in (r"\(([^()]*)\)\*([0-9]{1,4})", r"([EtmLx|])\*([0-9]{1,4})"):
        for _ in range(64):
            found = re.search(pattern, text)
            if found is None:
                break
            text = text[: found.start()] + found[1] * int(found[2]) + text[found.end() :]
            if len(text) > 8 * _MOST_CHUNKS:
                return None
    return tuple(part.count("t") for part in text.split("|"))


def _written_megatron_layout(value: Value) -> Scalar:
    counts = value if isinstance(value, tuple) else ()
    return "E" + "|".join("t" * count for count in counts) + "L"


def _written_megatron_layout_mtp(value: Value) -> Scalar:
    """With one MTP layer, which is before the loss."""
    return f"{_written_megatron_layout(value)}"[:-1] + "mL"


def _count(value: Scalar) -> Value | None:
    found = _numbers(value)
    return Fraction(len(found)) if isinstance(found, tuple) else None


_NUMBER = Form(_whole, _plain_number)

FORMS: Mapping[str, Form] = MappingProxyType({
    "number": _NUMBER,
    "decimal": Form(_positive, _decimal),
    "first_number": Form(_first_number, _plain_number),
    "count": Form(_count, _plain_number),
    "flag": Form(lambda value: "no" if _truth(value) == "no" else "yes", lambda v: v == "yes"),
    "absent": Form(lambda _: "no", lambda value: value == "no"),
    "truth": Form(_truth, lambda value: value == "yes"),
    "untruth": Form(_untruth, lambda value: value != "yes"),
    "text": Form(_text, str),
    "numbers": Form(_numbers, _listed),
    "offsets": Form(_signed, lambda value: list(value) if isinstance(value, tuple) else None),
    "stage_numbers": Form(_stage_numbers, _listed),
    "titan_converters": Form(_titan_converters, str),
    "flash_within": Form(_flash_within, str),
    "dense_first": Form(_dense_first, _plain_number),
    "titan_parts": Form(_titan_parts, _written_titan_parts),
    "megatron_layout": Form(_megatron_layout, _written_megatron_layout),
    "megatron_layout_mtp": Form(_megatron_layout, _written_megatron_layout_mtp),
})  # fmt: skip
"""By the names that tables have."""
