"""What checks found for GitHub Actions: annotations on the run, and a page of Markdown for the step's summary.

Escaping is that of the runner's own parser (``src/Runner.Common/ActionCommand.cs`` in actions/runner): it takes a line for a command when
it begins with ``::``, after spaces, or holds ``##[`` anywhere, and undoes %25, %0D, %0A, in properties also %3A and %2C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow, count, distinct, known, several_lines, worst_first
from suffice.report.tables import markdown_text, one_line
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suffice.report.check_rows import PropertyValue

# GitHub drops further ones of a step without a word.
MOST_ANNOTATIONS: Final = 10
# GitHub refuses a larger summary of a step, all of it; half, as other programs may write to the same one.
MOST_SUMMARY_BYTES: Final = MIB // 2

_LEVELS: Final = {Outcome.FAIL: "error", Outcome.INCONCLUSIVE: "warning"}
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
# What GitHub's Markdown makes of plain text beside what Markdown does: formulas, mentions, links, lines through.
_GITHUB_MARKS: Final = {
    "~": "\\~",
    "$": "<span>$</span>",
    "@": "<span>@</span>",
    "://": ":<span>//</span>",
    "www.": "www<span>.</span>",
}


def annotation_lines(rows: Sequence[CheckRow], *, file: str | None = None, line: int | None = None) -> list[str]:
    """Workflow commands, one a line: an error for each failed check, a warning for each inconclusive one.

    Args:
        rows: what was found; checks that passed say nothing.
        file: what the annotations stand beside, from the repository's root.
        line: in that file.
    """
    return [
        text
        for outcome, level in _LEVELS.items()
        for text in _of_level(level, [row for row in rows if row.outcome is outcome], file, line)
    ]


def inert_line(text: str) -> str:
    """A line for a log that GitHub's runner reads: it never takes it for one of its commands."""
    line = one_line(text).replace("##[", "## [")
    return line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line


def step_summary(
    rows: Sequence[CheckRow], *, title: str = "suffice guard", facts: Mapping[str, PropertyValue] | None = None
) -> str:
    """A heading, a table of all checks with the worst first, what they have to say beside their reasons, and ``facts`` of the run."""
    counts = [(count(rows, outcome), outcome.value) for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)]
    told = ", ".join(f"{number} {word}" for number, word in counts if number) or "no checks"
    lines = [f"### {github_text(title)}: {told}", ""]
    lines += [f"- {github_text(name)}: {github_text(value)}" for name, value in known(facts or {}).items()]
    lines += ["", "| outcome | check | why |", "|---|---|---|"]
    ordered = worst_first(distinct(rows))
    table = [f"| {_shown(row.outcome)} | {github_text(row.name)} | {github_text(row.reason)} |" for row in ordered]
    return _limited(lines, table, _messages(ordered))


def github_text(text: str) -> str:
    """A text from outside as inert Markdown on GitHub."""
    escaped = markdown_text(text)
    for mark, harmless in _GITHUB_MARKS.items():
        escaped = escaped.replace(mark, harmless)
    return escaped


def _of_level(level: str, rows: Sequence[CheckRow], file: str | None, line: int | None) -> list[str]:
    shown = rows if len(rows) <= MOST_ANNOTATIONS else rows[: MOST_ANNOTATIONS - 1]
    texts = [_command(level, row.name, _message(row), file, line) for row in shown]
    left = len(rows) - len(shown)
    if left:
        texts.append(_command(level, f"{left} more", "the step's summary has all checks", file, line))
    return texts


def _message(row: CheckRow) -> str:
    return f"{one_line(row.reason)}\n{several_lines(row.message)}" if row.message else one_line(row.reason)


def _command(level: str, title: str, message: str, file: str | None, line: int | None) -> str:
    properties = {"file": one_line(file or ""), "line": None if line is None else str(line), "title": one_line(title)}
    # A property without a value is a mistake to the runner.
    told = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items() if value)
    return f"::{level} {told}::{message.translate(_DATA)}"


def _shown(outcome: Outcome) -> str:
    return outcome.value if outcome is Outcome.PASS else f"**{outcome.value}**"


def _messages(rows: Iterable[CheckRow]) -> list[str]:
    return [
        f"\n**{github_text(row.name)}**\n\n" + "<br>\n".join(github_text(line) for line in row.message.splitlines())
        for row in rows
        if row.message
    ]


def _limited(head: Sequence[str], *parts: Sequence[str]) -> str:
    """The head and as much of the rest as fits, with what was left out told: GitHub takes all or nothing."""
    kept = list(head)
    room = MOST_SUMMARY_BYTES - sum(len(text.encode()) + 1 for text in head)
    left = 0
    for text in (text for part in parts for text in part):
        room -= len(text.encode()) + 1
        if room < 0:
            left += 1
        else:
            kept.append(text)
    if left:
        kept.append(f"\n{left} more are left out: a summary has a largest size.")
    return "\n".join(kept) + "\n"
