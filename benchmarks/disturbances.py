"""Are disturbed measurements marked, and quiet ones not, and is the quiet speed right? On real processes, on this machine.

Each trial is one short measurement of decode and prefill of a small model, as `suffice measure` makes it (bandwidth is not read, so that a
trial is short), quiet or beside one disturbance of our own:

- busy-core, two-busy-cores: processes that compute without an end, one or two;
- bandwidth-hog: a process that copies a buffer larger than the last-level cache;
- bursts: two processes that compute for 0.2 s in every second;
- quota: the engine's process gets 1.2 CPUs by a cgroup (25 ms periods; v1 or v2, needs root);
- stop: the engine's process is stopped (SIGSTOP) for 0.2 s in every second.

The kinds take turns in a random order, round by round, so that the host's own moods hit all alike. Bursts and stops begin with each full second of the
system's clock, so that we know which steps they met: the truth, with which the quiet speed is compared, are the steps of the same trial that they did not meet (a
speed that was found some seconds earlier or later is another one on a host with neighbours: 15 % apart). With nobody beside all steps are the truth. Results go to FILE line by line; a run that was interrupted goes on with the next round.

Usage: python -m benchmarks.disturbances MODEL.gguf FILE.jsonl [--rounds 100] [--threads 2] [--only KIND ...] [--lock LOCKFILE]; --table prints what FILE holds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.short_runs import OneDepth, locked

from suffice.decide.disturbance import ContentionReading, judge_disturbance
from suffice.decide.quiet import disturbed_parts, with_quiet
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.machine import RealMachine
from suffice.measure.series import (
    SeriesRunner,
    SeriesState,
    ThreadChoice,
    decode_rate,
    prefill_rate,
    warm_up,
)
from suffice.records.schema import DecodeSeries, MeasurementRecord, PrefillSeries, ReferenceRecord, RepetitionRecord
from suffice.stats.proportions import wilson_interval
from suffice.stats.quiet import Window
from suffice.stats.stopping import StoppingRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from suffice.measure.engine.seam import Session
    from suffice.measure.machine import Machine

QUIET: Final = "quiet"
BURST_S: Final = 0.2
QUOTA_CPUS: Final = 1.2
QUOTA_PERIOD_S: Final = 0.025
REPETITIONS: Final = 10
LENGTH: Final = 32
STEPS: Final = 32
TRIAL_S: Final = 3.5
REST_S: Final = 0.3
YIELD_S: Final = 0.05
LEAST_QUIET_SHARE: Final = 0.30
CLOSE: Final = 0.05
SLACK_S: Final = 0.02
LEAST_STEPS: Final = 4
_COMPUTES: Final = "while True: pass"
_BURSTS: Final = f"""
import time
while True:
    time.sleep(1 - time.monotonic() % 1)
    while time.monotonic() % 1 < {BURST_S}: pass
"""
_COPIES: Final = """
import numpy as np
a = np.ones(1 << 26, dtype=np.int64)
b = np.empty_like(a)
while True: np.copyto(b, a)
"""


@contextmanager
def processes(script: str, count: int) -> Iterator[None]:
    """So many processes beside the trial, which have started to work."""
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def stops(pids: Callable[[], list[int]]) -> Iterator[None]:
    """The engine's process is stopped for a while in every second."""
    over = threading.Event()

    def send(number: signal.Signals) -> None:
        for pid in pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def work() -> None:
        while not over.wait(1 - time.monotonic() % 1):
            send(signal.SIGSTOP)
            over.wait(max(0.0, BURST_S - time.monotonic() % 1))
            send(signal.SIGCONT)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        send(signal.SIGCONT)


def quota_folder() -> tuple[Path, bool]:
    """Where groups of processes with a quota of CPU time are made, and whether it is version 2."""
    second = Path("/sys/fs/cgroup")
    if (second / "cgroup.controllers").exists():
        return second, True
    return second / "cpu", False


@contextmanager
def quota(pids: Callable[[], list[int]]) -> Iterator[None]:
    """The engine's process gets less than two CPUs, by a cgroup of its own."""
    parent, is_second = quota_folder()
    group = parent / f"suffice-bench-{os.getpid()}"
    group.mkdir()
    period_us = round(QUOTA_PERIOD_S * 1_000_000)
    allowed_us = round(QUOTA_CPUS * period_us)
    if is_second:
        (group / "cpu.max").write_text(f"{allowed_us} {period_us}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(period_us))
        (group / "cpu.cfs_quota_us").write_text(str(allowed_us))
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            for pid in pids():
                try:
                    (group / "cgroup.procs").write_text(str(pid))
                except OSError:
                    continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        left = (group / "cgroup.procs").read_text().split()
        for pid in left:
            (parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def engine_pids() -> list[int]:
    """Our child processes that are engines."""
    own, found = str(os.getpid()), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            line = entry.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if parent == own and b"suffice" in line:
            found.append(int(entry.name))
    return found


def disturbance(kind: str) -> Any:  # noqa: ANN401  # a context manager
    """What goes on beside a trial."""
    made: Mapping[str, Callable[[], Any]] = {
        QUIET: nullcontext,
        "busy-core": lambda: processes(_COMPUTES, 1),
        "two-busy-cores": lambda: processes(_COMPUTES, 2),
        "bandwidth-hog": lambda: processes(_COPIES, 1),
        "bursts": lambda: processes(_BURSTS, 2),
        "quota": lambda: quota(engine_pids),
        "stop": lambda: stops(engine_pids),
    }
    return made[kind]()


KINDS: Final = (QUIET, "busy-core", "two-busy-cores", "bandwidth-hog", "bursts", "quota", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one measurement found; it is marked where there are reasons."""

    measurement: MeasurementRecord
    reasons: tuple[str, ...]
    references: tuple[ReferenceRecord, ...]
    reading: ContentionReading


def trial(session: Session, machine: Machine, kind: str, threads: int) -> Trial:
    """One measurement, with the readings, marks and rules of `suffice measure`."""
    plan = OneDepth(
        prompt_tokens=LENGTH,
        depth=LENGTH,
        steps=STEPS,
        budget_s=TRIAL_S,
        rule=StoppingRule(minimum=REPETITIONS, maximum=3 * REPETITIONS),
    )
    with disturbance(kind), ExitStack() as stack:
        observer = stack.enter_context(machine.observer([session.pid], threads) or nullcontext())
        state = SeriesState(threads=ThreadChoice(decode=threads, prefill=threads), prompt_tokens=LENGTH)
        contention = machine.contention(threads)
        contention.start()
        SeriesRunner(session, RealClock(), plan, state, observer).run()
        reading = contention.stop()
    measured = MeasurementRecord(decode=state.decode_series(), prefill=state.prefill_series())
    return judged(measured, tuple(state.references[0]), reading)


def judged(measured: MeasurementRecord, references: tuple[ReferenceRecord, ...], reading: ContentionReading) -> Trial:
    """The marks that follow from what was read."""
    measurement = with_quiet(measured, [references])
    whole = judge_disturbance([reading], None, None)
    reasons = list(whole.reasons) if whole.disturbed else []
    reasons += disturbed_parts(measurement, [references], cause_is_told=bool(reasons))
    return Trial(measurement=measurement, reasons=tuple(reasons), references=references, reading=reading)


def judged_again(row: dict[str, Any], threads: int) -> dict[str, Any]:
    """A line of FILE by the rules of today: what it holds is what was read."""

    def repetitions(rows: list[dict[str, Any]]) -> tuple[RepetitionRecord, ...]:
        return tuple(
            RepetitionRecord(
                **{
                    **one,
                    "windows": tuple(Window(**window) for window in one["windows"]),
                    "reasons": tuple(one["reasons"]),
                }
            )
            for one in rows
        )

    steps = tuple(tuple(one) for one in row["steps"])
    decode = DecodeSeries(
        depth=LENGTH,
        threads=threads,
        step_s=steps,
        tokens_per_second=decode_rate(steps),
        repetitions=repetitions(row["repetitions"]),
    )
    chunks = tuple(tuple(one) for one in row["prefill_s"])
    prefill = PrefillSeries(
        prompt_tokens=LENGTH,
        threads=threads,
        chunk_s=chunks,
        tokens_per_second=prefill_rate(chunks, LENGTH),
        repetitions=repetitions(row["prefill_repetitions"]),
    )
    measured = MeasurementRecord(decode=(decode,), prefill=prefill)
    references = tuple(ReferenceRecord(**one) for one in row["references"])
    made = judged(measured, references, ContentionReading(**row["reading"]))
    return {**line_of(made, row["kind"], row["round"]), "aligned": row.get("aligned", False)}


def line_of(made: Trial, kind: str, number: int) -> dict[str, Any]:
    """What the table needs of a trial."""
    (first,), prefill = made.measurement.decode, made.measurement.prefill
    quiet = first.quiet
    return {
        "round": number,
        "kind": kind,
        "disturbed": bool(made.reasons),
        "reasons": list(made.reasons),
        "decode": None if first.tokens_per_second is None else first.tokens_per_second.point,
        "samples": [] if first.tokens_per_second is None else list(first.tokens_per_second.samples),
        "aligned": True,
        "quiet": None if quiet is None or quiet.tokens_per_second is None else quiet.tokens_per_second.point,
        "quiet_interval": None
        if quiet is None or quiet.tokens_per_second is None or quiet.tokens_per_second.interval is None
        else [quiet.tokens_per_second.interval.low, quiet.tokens_per_second.interval.high],
        "why_not": None if quiet is None else quiet.why_not,
        "basis": None if quiet is None else quiet.basis,
        "share": None if quiet is None else quiet.disturbed_share,
        "marks": [one.disturbed for one in first.repetitions],
        "rep_reasons": [list(one.reasons) for one in first.repetitions],
        "references": [asdict(one) for one in made.references],
        "repetitions": [asdict(one) for one in first.repetitions],
        "reading": asdict(made.reading),
        "prefill_repetitions": [] if prefill is None else [asdict(one) for one in prefill.repetitions],
        "prefill_s": [] if prefill is None else [list(row) for row in prefill.chunk_s],
        "prefill": None if prefill is None or prefill.tokens_per_second is None else prefill.tokens_per_second.point,
        "steps": [list(row) for row in first.step_s],
    }


def run(asked: argparse.Namespace) -> None:
    """Make the trials that FILE lacks."""
    made = asked.out.read_text().splitlines() if asked.out.exists() else []
    done = {(row["round"], row["kind"]) for row in map(json.loads, made)}
    draw, machine = random.Random(1), RealMachine()  # noqa: S311  # an order, no secret
    settings = EngineSettings(n_ctx=16 * LENGTH, n_threads=asked.threads, n_threads_batch=asked.threads)
    with find_engine().open(asked.model, settings) as session:
        warm_up(session)
        for number in range(asked.rounds):
            for kind in draw.sample(KINDS, len(KINDS)):
                if (number, kind) in done or kind not in (asked.only or KINDS):
                    continue
                with locked(asked.lock):
                    time.sleep(REST_S)
                    found = trial(session, machine, kind, asked.threads)
                with asked.out.open("a") as file:
                    file.write(json.dumps(line_of(found, kind, number)) + "\n")
                print(f"round {number} {kind}: {'; '.join(found.reasons) or 'quiet'}", file=sys.stderr)
                time.sleep(YIELD_S)  # to others who wait for the lock


def undisturbed(row: dict[str, Any]) -> tuple[float, float] | None:
    """Of a trial the rate of the steps that we did not disturb, and their share of the time; None where there were none, or it is not known."""
    if row["kind"] not in (QUIET, "bursts", "stop") or not row.get("aligned"):
        return None
    rates, kept_s, total_s = [], 0.0, 0.0
    for steps, repetition in zip(row["steps"], row["repetitions"], strict=True):
        edges = [repetition["start_s"], *(repetition["start_s"] + sum(steps[: end + 1]) for end in range(len(steps)))]
        clear = [
            step
            for step, begin, end in zip(steps, edges, edges[1:], strict=False)
            if row["kind"] == QUIET or not _is_met(begin, end)
        ]
        kept_s, total_s = kept_s + sum(clear), total_s + sum(steps)
        if len(clear) >= LEAST_STEPS:
            rates.append(len(clear) / sum(clear))
    return None if not rates else (median(rates), kept_s / total_s)


def _is_met(begin_s: float, end_s: float) -> bool:
    """Whether a step meets the first part of a second, or what it takes until CPUs and caches are the engine's again."""
    return begin_s % 1 < BURST_S + SLACK_S or int(end_s) > int(begin_s)


def table(rows: list[dict[str, Any]]) -> None:
    """Print what was found."""
    quiet = [row["decode"] for row in rows if row["kind"] == QUIET and row["decode"]]
    print(
        "| beside | trials | marked | 95 % interval | with 30 % undisturbed | told | within 5 % | median error | told without | as found |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if not own:
            continue
        marked = sum(row["disturbed"] is True for row in own)
        interval = wilson_interval(marked, len(own))
        assert interval is not None  # there are trials  # noqa: S101
        truths = [(row, truth) for row in own if (truth := undisturbed(row)) is not None]
        able = [(row, truth[0]) for row, truth in truths if truth[1] >= LEAST_QUIET_SHARE]
        errors = [row["quiet"] / rate - 1 for row, rate in able if row["quiet"] is not None]
        close = sum(abs(error) <= CLOSE for error in errors)
        never = kind not in (QUIET, "bursts", "stop")
        told_without = sum(row["quiet"] is not None for row in own) if never else 0
        middle = f"{median(errors):+.1%}" if errors else ""
        found = median([row["decode"] for row in own if row["decode"]]) / median(quiet)
        print(
            f"| {kind} | {len(own)} | {marked} ({marked / len(own):.0%}) | {interval.low:.0%} to {interval.high:.0%} | {len(able)} | {len(errors)} | "
            f"{close} ({close / max(1, len(errors)):.0%}) | {middle} | {told_without} | {found:.2f} |"
        )


def main() -> None:
    """Make trials, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", choices=KINDS, help="these alone; may be repeated")
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    # Ended from outside it still ends what it started: a process that computes without an end would spoil everything behind it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not asked.table:
        run(asked)
    table([judged_again(json.loads(text), asked.threads) for text in asked.out.read_text().splitlines()])


if __name__ == "__main__":
    main()
