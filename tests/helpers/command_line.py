"""Calling `suffice ...` in this process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from suffice import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Result:
    """What a call of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; more than one does not parse."""
        document: dict[str, Any] = json.loads(self.out)
        return document


def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> Callable[..., Result]:
    """Calls `suffice ...` in a folder, as its entry point does."""
    monkeypatch.chdir(folder)

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["suffice", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        captured = capsys.readouterr()
        return Result(left.value.code if isinstance(left.value.code, int) else 0, captured.out, captured.err)

    return call
