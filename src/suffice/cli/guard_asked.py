"""What the guard's flags ask for: limits, metrics, a tolerance, commands."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from suffice.cli import options
from suffice.errors import SufficeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.guard_types import Limit, Metric
    from suffice.records.schema import RunRecord

PLACEHOLDER: Final = "{out}"
_PERCENT: Final = 100


def limits_of(floors: Sequence[str], ceilings: Sequence[str]) -> list[Limit]:
    """Floors and ceilings as they were written: ``8``, ``decode=8``, ``ttft_p90=2s``, ``memory=4GiB``, ``quality=0.9``.

    Raises:
        UsageError: an unknown metric, one with a limit on its good side, a limit that is none, or two of one metric.
    """
    from suffice.decide.guard_types import CheckKind

    limits = [_limit(text, CheckKind.FLOOR) for text in floors]
    limits += [_limit(text, CheckKind.CEILING) for text in ceilings]
    names = [limit.metric for limit in limits]
    twice = next((metric for metric in names if names.count(metric) > 1), None)
    if twice is not None:
        raise UsageError(f"--{limits[names.index(twice)].kind} {twice} is given twice; give one")
    return limits


def _limit(text: str, kind: str) -> Limit:
    from suffice.decide.guard_types import Limit

    name, equals, value = text.partition("=")
    if not equals:
        if kind == "ceiling":
            raise UsageError(f"--ceiling {text}: of what? Write ttft_p90=2s or memory=4GiB")
        name, value = "decode", text
    metric = _metric(name.strip(), f"--{kind} {text}")
    limit = Limit(metric=metric, value=_value(metric, value.strip(), f"--{kind} {text}"))
    if limit.kind != kind:
        raise UsageError(f"--{kind} {text}: {metric} is better when {metric.better}; give it as --{limit.kind} {text}")
    return limit


def _metric(name: str, flag: str) -> Metric:
    from suffice.decide.guard_types import Metric

    try:
        return Metric(name)
    except ValueError:
        raise UsageError(f"{flag}: no metric {name!r}; there are {', '.join(Metric)}") from None


def _value(metric: Metric, text: str, flag: str) -> float:
    from suffice.decide.guard_types import Metric
    from suffice.slices.place import parse_size_bytes
    from suffice.units import parse_duration_s

    try:
        if metric is Metric.MEMORY:
            return float(parse_size_bytes(text))
        if metric.unit == "s":
            return parse_duration_s(text)
        value = options.positive(float(text), flag)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{flag}: {error}") from None
    if metric is Metric.QUALITY and value > 1:
        raise UsageError(f"{flag}: a quality is a score from 0 to 1; write 0.9 for 90 %")
    return value


def metrics_of(text: str | None) -> tuple[Metric, ...]:
    """Metrics to compare, ``decode,prefill``; None: those that are compared when nobody says.

    Raises:
        UsageError: an unknown one, or one that cannot be compared.
    """
    from suffice.decide.compare_runs import DEFAULT_METRICS
    from suffice.decide.guard_types import COMPARED

    if text is None:
        return DEFAULT_METRICS
    found = tuple(dict.fromkeys(_metric(name.strip(), f"--compare {text}") for name in text.split(",")))
    other = [metric for metric in found if metric not in COMPARED]
    if other:
        raise UsageError(f"--compare {text}: {', '.join(other)} cannot be compared; {', '.join(COMPARED)} can")
    return found


def tolerance_of(text: str) -> float:
    """A share, written ``5%`` or ``0.05``.

    Raises:
        UsageError: it is none between 0 and 1.
    """
    stripped = text.strip()
    try:
        share = float(stripped.removesuffix("%")) / (_PERCENT if stripped.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise UsageError(f"--tolerance {text}: write a share such as 5% or 0.05")
    return share


def words_of(text: str, flag: str) -> list[str]:
    """A text as a shell would split it; a backslash is one on Windows.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return shlex.split(text, posix=os.name != "nt")
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {error}") from None


def folder_for_records(folder: Path) -> Path:
    """The folder, made where it is not there: records of another measurement must not be taken for these, nor lost.

    Raises:
        UsageError: it holds something, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--records {folder} is not empty; give a new folder")
    except OSError as error:
        raise UsageError(f"--records {folder} cannot be used: {error.strerror or error}") from error
    return folder


def check_command(command: str, flag: str) -> list[str]:
    """The words of a command that writes a run record to ``{out}``.

    Raises:
        UsageError: it is empty, not quoted well, or does not say where the record goes.
    """
    words = words_of(command, flag)
    if not words or not any(PLACEHOLDER in word for word in words):
        raise UsageError(
            f"{flag} {command!r}: write {PLACEHOLDER} where the command puts the run record, as in "
            f"'suffice measure model.gguf --out {PLACEHOLDER}'"
        )
    return words


def run_command(words: Sequence[str], out: Path, flag: str) -> RunRecord:
    """Run a command and read the record that it wrote. Its stdout goes to our stderr: ours is for one document.

    An exit code that is not 0 is no failure where the record is complete: `suffice check` says its verdict with it.

    Raises:
        UsageError: it could not be started, or left no record that can be used.
    """
    from suffice.loaders.any_record import load_any_record

    told = shlex.join(words)
    try:
        ended = subprocess.run(  # noqa: S603  # the user's own command, which is what the flag is for
            [word.replace(PLACEHOLDER, str(out)) for word in words], stdout=_stderr(), check=False
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag}: {told} could not be started: {error}") from error
    try:
        return load_any_record(out)
    except SufficeError as error:
        raise UsageError(
            f"{flag}: {told} ended with exit code {ended.returncode} and left no usable record: {error}"
        ) from error


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is no file
        return subprocess.DEVNULL
