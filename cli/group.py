"""How every command ends: its exit status, and one message instead of a traceback."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from cli.errors import is_user_error, print_error
from planner.requests.collector import collecting_rarely

USER_ERROR = 2
INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h: a fault of the program, never to be mistaken for an answer."""
INTERRUPTED = 130
BROKEN_PIPE = 141

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for arguments that it cannot parse; it has no public name."""
_NO_ARGUMENTS, _MISSING = "NoArgsIsHelpError", "MissingParameter"
"""Two of them, by name: a group without a command, an argument or option that is not given."""

_NO_NUMBER = {
    "Input should be a valid integer, unable to parse string as an integer": "whole number",
    "Input should be a valid number, unable to parse string as a number": "number",
}
"""What typer says of a text that is no number, and what it should be."""


class Commands(TyperGroup):
    """The group of all commands: 0 done, 1 no plan fits, 2 a fault of the user, 70 one of ours."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run one command; in standalone mode leave the process with its exit status."""
        given = list(sys.argv[1:] if args is None else args)
        run = partial(
            super().main, given, prog_name, complete_var, False, windows_expand_args, **extra
        )
        if not standalone_mode:
            return run()
        _print_any_text()
        with collecting_rarely():
            status = _status(run, given)
        sys.exit(status)


def _print_any_text() -> None:
    """Print bytes of a file's name that are no text as their codes, as JSON writes them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _status(run: Callable[[], Any], given: Sequence[str]) -> int:
    as_json = "--json" in given
    try:
        code = run()
    except typer.Abort:
        print_error("interrupted", as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has left; there is nobody to tell
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  the last line of defence
        return _explain(error, given, as_json=as_json)
    return code if isinstance(code, int) else 0


def _explain(error: Exception, given: Sequence[str], *, as_json: bool) -> int:
    if isinstance(error, _USAGE_ERROR):
        if type(error).__name__ == _NO_ARGUMENTS and not as_json:
            print(_message(error), file=sys.stderr)  # the help of a group of commands
        else:
            print_error(_usage(error), as_json=as_json)
        return USER_ERROR
    if is_user_error(error):
        print_error(str(error), as_json=as_json)
        return USER_ERROR
    if isinstance(error, UnicodeEncodeError):
        print_error(_no_text(error, given), as_json=as_json)
        return USER_ERROR
    traceback.print_exception(error)
    print_error(f"a fault of the planner: {type(error).__name__}: {error}", as_json=as_json)
    return INTERNAL_ERROR


def _no_text(error: UnicodeEncodeError, given: Sequence[str]) -> str:
    """Of a text that is half a surrogate pair in a file, or bytes on the command line."""
    strange = error.object[error.start : error.end]
    where = next((text for text in given if strange in text), "a name in what was read")
    return f"{strange!r} is no text that UTF-8 can write\n  at:  {where}\n  fix: name it otherwise"


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "planner"
    text = _message(error)
    such = f"such as `{example}`; " if (example := _example(error, context)) else ""
    for theirs, ours in _NO_NUMBER.items():
        if theirs in text:
            text = text.replace(theirs, f"not a {ours}")
            flag = getattr(error, "param").opts[0]  # noqa: B009  not of all of them
            such = f"{flag} takes a {ours}, such as {16 if 'whole' in ours else 0.5}; "
    what = text[:1].lower() + text[1:].rstrip(".")
    fix = f"{such}`{command} --help` lists what it takes"
    return f"{what or 'no command'}\n  at:  {command}\n  fix: {fix}"


def _message(error: Exception) -> str:
    return str(getattr(error, "format_message", error.__str__)()).strip()


def _example(error: Exception, context: Any) -> str:
    """The first example of the command's help, where something is missing."""
    if context is None or type(error).__name__ != _MISSING:
        return ""
    lines = (line.strip() for line in (context.command.epilog or "").splitlines())
    return next((line for line in lines if line.startswith(context.command_path)), "")
