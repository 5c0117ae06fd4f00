"""The ``--help`` texts of docs/commands.md: written by ``scripts/docs``, compared by a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

COMMANDS_FILE = Path(__file__).parents[2] / "docs" / "commands.md"
_BLOCK = re.compile(r"(?<=<!-- help: )(?P<command>[a-z ]*)( -->\n```text\n)(?P<text>.*?)(?=```\n)", re.DOTALL)


def help_text(command: str) -> str:
    """What ``suffice COMMAND --help`` prints, in a terminal of fixed width."""
    words = [sys.executable, "-m", "suffice", *command.split(), "--help"]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    out = subprocess.run(words, capture_output=True, check=True, text=True, env=environment).stdout
    lines = [line.rstrip() for line in out.replace("python -m suffice", "suffice").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def documented() -> dict[str, str]:
    """Command -> the text that the document holds."""
    text = COMMANDS_FILE.read_text(encoding="utf-8")
    return {match["command"]: match["text"] for match in _BLOCK.finditer(text)}


def refresh() -> None:
    """Write the current texts into the document."""
    text = COMMANDS_FILE.read_text(encoding="utf-8")
    renewed = _BLOCK.sub(lambda match: f"{match['command']}{match[2]}{help_text(match['command'])}", text)
    COMMANDS_FILE.write_text(renewed, encoding="utf-8")


if __name__ == "__main__":
    refresh()
