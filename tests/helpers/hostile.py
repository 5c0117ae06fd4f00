"""Names that reports must survive, and GitHub's rules for reading a log, in our own words."""

from __future__ import annotations

from dataclasses import dataclass

HOSTILE = (
    'a"b\\c\nd',
    "::error::owned",
    "  ::set-output name=x::y",
    "x ##[error]owned",
    "100 % of a,b:c=d;e]f%0Ag%250A",
    "<script>alert(1)</script> & <b>",
    "| a | b |\n|---|---|",
    "[link](http://evil.example) ![](x) www.evil.example a@b.example @team",
    "$\\color{red}{x}$ ~~gone~~ `code` *bold* _it_ #1",
    "\x1b[31mred\x1b[0m\x00\x07\x85\u2028\u202e",
    "\ud800\ufffe大模型 🦙",
    'run "]]><x/>&\r\n.json',
    "",
    "x" * 5000,
)
# What the runner knows; a line with another command is shown as it is.
COMMANDS = frozenset({"error", "warning", "notice", "set-output", "add-mask", "stop-commands", "group", "debug"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A workflow command as the runner understands it."""

    name: str
    properties: dict[str, str]
    message: str


def read_command(line: str) -> Command | None:
    """What GitHub's runner makes of a line of a log: a command, or None for text."""
    stripped = line.lstrip()
    if stripped.startswith("::"):
        head, found, message = stripped[2:].partition("::")
        name, _, told = head.partition(" ")
        if found and name in COMMANDS:
            pairs = [pair.split("=", 1) for pair in told.strip().split(",") if pair]
            properties = {
                pair[0]: _undo(pair[1], "%0D", "%0A", "%3A", "%2C", "%25") for pair in pairs if len(pair) == 2
            }
            return Command(name=name, properties=properties, message=_undo(message, "%0D", "%0A", "%25"))
    _, found, rest = line.partition("##[")
    name = rest.partition("]")[0].partition(" ")[0]
    if found and "]" in rest and name in COMMANDS:
        return Command(name=name, properties={}, message=rest.partition("]")[2])
    return None


def _undo(text: str, *escapes: str) -> str:
    """In the runner's order: %25 last."""
    for escape in escapes:
        text = text.replace(escape, chr(int(escape[1:], 16)))
    return text
