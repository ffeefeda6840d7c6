"""Arguments in a shell script: variables, arrays, arithmetic and conditions followed, nothing run.

What is understood: assignments and arrays with `+=`, `${X:-default}` and its like, `$((...))`,
quotes, lines that go on, documents written with `cat <<EOF`, `if` and `case` over texts and
numbers, functions, `read <<<`, and other scripts given that are read with `source`. A loop is
followed once, with its first value; a variable that only the environment knows is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from importers.errors import ModelError
from importers.recipes.conditions import holds
from importers.recipes.expansion import Variables, expanded, joined, words
from importers.recipes.statements import (
    CASE_END,
    Statement,
    closing,
    end_of_word,
    statements,
    top_level,
    unquoted,
)
from importers.recipes.traced import Traced

__all__ = ["Command", "Script", "read_script", "variables_with_options"]

_ASSIGNED = re.compile(
    r"(?:(?:export|local|declare|readonly|typeset)\s+(?:-[A-Za-z]+\s+)*)?"
    r"([A-Za-z_]\w*(?:\[[^\]=]*\])?)(\+?)="
)
_FUNCTION = re.compile(r"\s*(?:function\s+([\w.-]+)\s*(?:\(\s*\))?|([\w.-]+)\s*\(\s*\))\s*(\{?)")
_READ = re.compile(r"\s*(?:IFS=\S*\s+)?read\s+((?:-\w+\s+)*)([\w\s]+?)\s*<<<", re.DOTALL)
_SET = re.compile(
    r"\s*(?:let\s+[\"']?|\(\(\s*)(\w+)\s*([-+*/]?)=(?!=)\s*(.+?)[\"']?\s*(?:\)\))?\s*$"
)
_SOURCED = re.compile(r"\s*(?:source|\.|bash|sh)\s+(?!-)(.+)", re.DOTALL)
_SAID = re.compile(r"\s*(?:echo|printf|cd|mkdir|rm|cp|mv|pip|exit|return|shift|unset|set|cat|:)\b")
_LONGEST = 200
_MOST_CALLS = 16
_MOST_ARGUMENTS = 64
_MOST_CHARACTERS = 2**18
"""Of a script; those that frameworks publish have some ten thousand."""
_MOST_STATEMENTS = 20_000


@dataclass(frozen=True, slots=True)
class Command:
    """Something that a script starts."""

    written: Traced
    """As it stands in the script."""
    words: list[Traced]
    """With everything put in."""


@dataclass(slots=True)
class _Branch:
    """An `if` or a `case` that is followed."""

    skipped: bool
    taken: bool
    """Whether an alternative of it has been followed."""
    subject: str | None = None
    """What a `case` compares; None of an `if`."""
    waits: bool = False
    """Whether a pattern of a `case` comes next."""


@dataclass(slots=True)
class Script:
    """What a script sets and starts."""

    variables: Variables
    others: Mapping[str, str]
    """Other scripts given, by the names of their files."""
    commands: list[Command] = field(default_factory=list)
    documents: list[Traced] = field(default_factory=list)
    """Files that it writes from text inside it."""
    loops: list[str] = field(default_factory=list)
    """What was read of loops, a sentence each."""
    functions: dict[str, list[Statement]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    read: int = 0
    """Statements read so far."""

    def run(self, lines: Sequence[Statement], depth: int = 0) -> None:
        """Follow statements in their order."""
        branches: list[_Branch] = []
        at = 0
        while at < len(lines):
            self.read += 1
            if self.read > _MOST_STATEMENTS:
                raise ModelError("the script goes on without end", "", "name its arguments alone")
            opened = _FUNCTION.match(lines[at].line.text)
            if opened and not any(each.skipped for each in branches):
                at = self._define(lines, at, opened)
                continue
            self._statement(lines[at], branches, depth)
            at += 1

    def _define(self, lines: Sequence[Statement], at: int, opened: re.Match[str]) -> int:
        """Keep a function; where the script goes on behind it."""
        name = opened.group(1) or opened.group(2)
        line = lines[at].line
        body = [Statement(line.part(opened.end(), len(line.text)))]
        depth, end = int(bool(opened.group(3))), at + 1
        while end < len(lines) and (depth or not opened.group(3)):
            text = lines[end].line.text.strip()
            end += 1
            if text == "{" and not opened.group(3) and not depth:
                depth = 1
                continue
            depth += text.endswith("{") and not text.endswith("${")
            depth -= text == "}" or text.startswith("} ")
            if depth <= 0:
                break
            body.append(lines[end - 1])
        self.functions[name] = body
        return end

    def _statement(self, statement: Statement, branches: list[_Branch], depth: int) -> None:
        line: Traced | None = statement.line
        while line is not None and line.text.strip():
            rest = self._control(line, branches)
            if rest is line:
                break
            line = rest
        skipped = any(each.skipped for each in branches)
        if statement.document is not None and not skipped:
            self.documents.append(expanded(statement.document, self.variables, quoted=True))
        if line is not None and line.text.strip() and not skipped:
            self._simple(line, depth)

    def _control(self, line: Traced, branches: list[_Branch]) -> Traced | None:
        """Follow a word of control; what stands behind it on the same line."""
        text = line.text
        word = text.split(None, 1)[0]
        rest = line.part(text.index(word) + len(word), len(text))
        if text.strip() == CASE_END:
            if branches and branches[-1].subject is not None:
                branches[-1].skipped = branches[-1].waits = True
            return None
        if branches and branches[-1].waits and word != "esac":
            return self._pattern(line, branches[-1])
        if word in {"then", "do", "{"}:
            return rest
        if word in {"if", "elif", "else", "fi", "case", "esac"}:
            return self._branch(word, rest, branches)
        if word == "for":
            self._loop(rest)
            return None
        return None if word in {"done", "}", "while", "until"} else line

    def _branch(self, word: str, rest: Traced, branches: list[_Branch]) -> Traced | None:
        if word == "if":
            true = holds(rest, self.variables)
            branches.append(_Branch(skipped=not true, taken=true))
        elif word == "case":
            subject = unquoted(expanded(rest, self.variables)).text
            subject = re.sub(r"\s+in\s*$", "", subject).strip()
            branches.append(_Branch(skipped=True, taken=False, subject=subject, waits=True))
        elif word in {"fi", "esac"}:
            if branches:
                branches.pop()
        elif branches:
            last = branches[-1]
            last.skipped = last.taken or (word == "elif" and not holds(rest, self.variables))
            last.taken = last.taken or not last.skipped
        return rest if word == "else" else None

    def _pattern(self, line: Traced, branch: _Branch) -> Traced | None:
        """Compare the patterns of a `case`; what stands behind them."""
        found = re.match(r"\s*\(?([^()]*)\)", line.text)
        if not found:
            return None
        patterns = [
            unquoted(expanded(Traced.made(each.strip()), self.variables)).text
            for each in found.group(1).split("|")
        ]
        fits = any(fnmatchcase((branch.subject or "")[:_LONGEST], each) for each in patterns)
        branch.skipped, branch.waits = branch.taken or not fits, False
        branch.taken = branch.taken or fits
        return line.part(found.end(), len(line.text))

    def _loop(self, rest: Traced) -> None:
        """Take the first value of a loop."""
        counted = re.match(r"\s*\(\(\s*(\w+)\s*=\s*(\w+)", rest.text)
        listed = re.match(r"\s*(\w+)\s+in\s", rest.text)
        if counted:
            self.variables.known[counted.group(1)] = [Traced.made(counted.group(2))]
        elif listed:
            values = rest.part(listed.end(), len(rest.text))
            array = re.fullmatch(r"\s*\"?\$\{(\w+)\[[@*]\]\}\"?\s*", values.text)
            found = (
                self.variables.known.get(array.group(1), [])
                if array
                else words(expanded(values, self.variables))
            )
            self.variables.known[listed.group(1)] = found[:1]
            if len(found) > 1:
                name, first = listed.group(1), found[0].text
                self.loops.append(f"of the loop over {name} the first value is read: {first[:60]}")

    def _simple(self, line: Traced, depth: int) -> None:
        """A statement without control: assignments, a call, a command."""
        head = line.text.lstrip()
        if head.startswith(("[", "((")) and not _SET.match(line.text):
            rest = self._when(line)
            if rest is not None:
                self._statement(Statement(rest), [], depth)
            return
        pieces = top_level(line.text, ("&&", "||", "|"))
        if len(pieces) > 1:
            for _, start, end in pieces:
                self._simple(line.part(start, end), depth)
            return
        if self._special(line, depth):
            return
        blanks = len(line.text) - len(head)
        assigned = _ASSIGNED.match(line.text, blanks)
        while assigned:
            end = self._assign(line, assigned)
            line = line.part(end, len(line.text))
            blanks = len(line.text) - len(line.text.lstrip())
            assigned = _ASSIGNED.match(line.text, blanks)
        text = line.text.strip()
        if not text:
            return
        name = text.split(None, 1)[0]
        if name in self.functions and depth < _MOST_CALLS:
            self.called.add(name)
            arguments = words(expanded(line, self.variables))[1:]
            self._with_arguments(arguments, self.functions[name], depth)
            return
        found = self.variables.keep(words(expanded(line, self.variables)))
        if not _SAID.match(text):
            self.commands.append(Command(line, found))

    def _when(self, line: Traced) -> Traced | None:
        """What stands behind conditions that hold: `[ $X = 1 ] && ...`."""
        pieces = top_level(line.text, ("&&", "||"))
        true = True
        for sign, start, end in pieces:
            piece = line.part(start, end)
            if sign and true != (sign == "&&"):
                continue
            if not piece.text.lstrip().startswith(("[", "((")):
                return line.part(start, len(line.text))
            true = holds(piece, self.variables)
        return None

    def _special(self, line: Traced, depth: int) -> bool:
        """Follow `read`, `let`, `source`; whether it was one of these."""
        text = line.text
        read, counted, sourced = _READ.match(text), _SET.match(text), _SOURCED.match(text)
        if read:
            self._read(line, read)
        elif counted:
            name, sign, value = counted.groups()
            whole = f"$(({name}{sign}({value})))" if sign else f"$(({value}))"
            self.variables.known[name] = [expanded(Traced.made(whole), self.variables)]
        return bool(read or counted) or (
            sourced is not None and self._source(line.part(sourced.start(1), len(text)), depth)
        )

    def _read(self, line: Traced, read: re.Match[str]) -> None:
        mark = re.search(r"IFS=[\"']?([^\"'\s$])", line.text[: read.end()])
        parted = mark.group(1) if mark else None
        value = unquoted(expanded(line.part(read.end(), len(line.text)), self.variables))
        text = value.text.strip()
        parts = [each.strip() for each in text.split(parted)] if parted else text.split()
        names = read.group(2).split()
        if "a" in read.group(1):
            self.variables.known[names[-1]] = self.variables.keep(list(map(Traced.made, parts)))
            return
        for name, part in zip(names, [*parts, *[""] * len(names)], strict=False):
            self.variables.known[name] = self.variables.keep([Traced.made(part)])

    def _source(self, rest: Traced, depth: int) -> bool:
        """Follow another script that was given too, with its arguments; whether there is one."""
        named = words(expanded(rest, self.variables))
        name = named[0].text.rpartition("/")[2] if named else ""
        if name not in self.others or depth >= _MOST_CALLS:
            return False
        lines = [
            Statement(Traced.made(each.line.text), each.document)
            for each in statements(self.others[name])
        ]
        self._with_arguments(named[1:], lines, depth)
        return True

    def _with_arguments(
        self, arguments: Sequence[Traced], lines: Sequence[Statement], depth: int
    ) -> None:
        """Follow statements that are given arguments: a function, another script."""
        if not arguments:
            self.run(lines, depth + 1)
            return
        known = self.variables.known
        names = ["@", "*", *(str(i) for i in range(1, _MOST_ARGUMENTS))]
        before = {each: known.pop(each) for each in names if each in known}
        known |= dict(zip(names[2:], ([word] for word in arguments), strict=False))
        known["@"] = known["*"] = self.variables.keep(list(arguments))
        self.run(lines, depth + 1)
        for each in names:
            known.pop(each, None)
        known |= before

    def _assign(self, line: Traced, assigned: re.Match[str]) -> int:
        """Take one assignment; where it ends."""
        name, more, start = assigned.group(1), bool(assigned.group(2)), assigned.end()
        known = self.variables.known
        if line.text.startswith("(", start) and not line.text.startswith("((", start):
            end = closing(line.text, start)
            found = words(expanded(line.part(start + 1, end), self.variables))
            self.variables.keep(found)
            known[name] = [*(known.get(name, []) if more else []), *found]
            for word in found:
                keyed = re.match(r"\[([^\]]+)\]=", word.text)
                if keyed:
                    known[f"{name}[{keyed.group(1)}]"] = [word.part(keyed.end(), len(word.text))]
            return min(end + 1, len(line.text))
        end = end_of_word(line.text, start)
        value = unquoted(expanded(line.part(start, end), self.variables))
        if more:
            value = joined(known.get(name, [])) + value
        if name.endswith("]"):
            key = unquoted(expanded(Traced.made(name), self.variables)).text
            known[key] = self.variables.keep([value])
        else:
            known[name] = self.variables.keep([value])
        return end


def read_script(text: str, environment: Mapping[str, str], others: Mapping[str, str]) -> Script:
    """What a script sets and starts, in the order of its lines.

    Args:
        text: of the script.
        environment: variables that it is started with; `1` is its first argument.
        others: further scripts by name, which it may read with `source`.

    Raises:
        ModelError: it expands to too much.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ModelError(
            f"the script has more than {_MOST_CHARACTERS:,} characters", "",
            "name its arguments alone",
        )  # fmt: skip
    given = {name: [Traced.made(value)] for name, value in environment.items()}
    found = Script(Variables(given), others)
    found.run(list(statements(text)))
    uncalled = [name for name in found.functions if name not in found.called]
    if not any(_has_options(each) for each in found.commands):
        for name in uncalled:
            found.run(found.functions[name])
    return found


def _has_options(command: Command) -> bool:
    return any(re.match(r"--?[A-Za-z]|\w+=", word.text) for word in command.words[1:])


def variables_with_options(found: Script) -> Iterator[Traced]:
    """Words of variables that hold options, of a file that starts nothing."""
    for name, listed in found.variables.known.items():
        parts = [part for each in listed for part in each.words()]
        if not name.endswith("]") and any(part.text.startswith("--") for part in parts):
            yield from parts
