"""Files of sharding rules on the command line; what stands in them is the planner's to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cli.errors import UserError
from planner.requests.option_texts import rules as found_rules
from planner.requests.sources import Document

LARGEST_FILE_BYTES = 2**20


def rules(texts: Sequence[str] | None, file: Path | None) -> tuple[tuple[str, str], ...]:
    """Kinds of operators, each with the notation of its rule, in order.

    Raises:
        UserError: a text is no rule, or the file cannot be read.
    """
    return found_rules(texts or (), rules_file(file))


def rules_file(file: Path | None) -> Document | None:
    """A file of rules, if one is given.

    Raises:
        UserError: it cannot be read, is too large, or is no text.
    """
    return None if file is None else Document(str(file), _text(file))


def _text(file: Path) -> str:
    fix = "name a text file with a rule on each line"
    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            raise UserError(f"larger than {LARGEST_FILE_BYTES} bytes", f"--rules {file}", fix)
        return file.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot read {file}: {reason}", f"--rules {file}", fix) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is no text in UTF-8", f"--rules {file}", fix) from error
