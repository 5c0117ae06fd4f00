"""The same file twice, beside a neighbour that comes and goes: how far the ratio of the two speeds is from 1.

Each trial measures the file as two models, once side by side in rounds (suffice.measure.interleaved) and once one after the other, with the
same number of repetitions. Meanwhile a process computes on one core for some seconds and rests for some, at random (exponential times, a
fixed seed). The true ratio is 1. Bandwidth is not measured, so that a trial is short. With --simulate the engine, its clock and the neighbour are
made up: a step of 20 ms takes 1.8 times as long beside the neighbour, and 3 % noise of its own.

Usage: python benchmarks/interleaved.py [--trials 12] [--rounds 6] [--threads 2] [--seconds 4] [--minutes 60] [--simulate] MODEL.gguf
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import subprocess
import sys
import threading
from bisect import bisect
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.decide.paired_speed import paired_decode, paired_prefill
from suffice.loaders.model_file import open_model_file
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import Timeouts, find_engine
from suffice.measure.engine.fake import FakeClock, FakeEngine, FakeSpeed
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.interleaved import measure_interleaved
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.stats.stopping import StoppingRule
from suffice.units import SECONDS_PER_MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Engine
    from suffice.stats.estimate import Estimate

BUDGET_S: Final = 600.0  # never spent: the number of repetitions ends a trial
LENGTH: Final = 32
STEP_S: Final = 0.02
TOKEN_S: Final = 0.005
SLOWED: Final = 1.8
OWN_NOISE: Final = 0.03
PHASES: Final = ("decode", "prefill")


@contextmanager
def neighbour(mean_s: float, seed: int) -> Iterator[None]:
    """A process that computes and rests in turns, each for a random time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    over, draw = threading.Event(), random.Random(seed)  # noqa: S311  # reproducible, no secret

    def toggle() -> None:
        signals = (signal.SIGSTOP, signal.SIGCONT)
        turn = 0
        while not over.wait(draw.expovariate(1 / mean_s)):
            process.send_signal(signals[turn % 2])
            turn += 1

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        process.kill()
        process.wait()


def simulated(mean_s: float, seed: int) -> Surroundings:
    """A made-up engine beside a made-up neighbour."""
    clock, draw = FakeClock(), random.Random(seed)  # noqa: S311  # reproducible, no secret
    changes_s = [0.0]
    while changes_s[-1] < BUDGET_S:
        changes_s.append(changes_s[-1] + draw.expovariate(1 / mean_s))

    def slowed(seconds: float) -> float:
        is_busy = bisect(changes_s, clock.now_s()) % 2 == 1
        return seconds * (SLOWED if is_busy else 1.0)

    engine = FakeEngine(
        clock=clock,
        speed=FakeSpeed(jitter=OWN_NOISE),
        seed=seed,
        step_cost=lambda _model, _depth, _batch: slowed(STEP_S),
        prefill_cost=lambda _model, _depth, tokens: slowed(tokens * TOKEN_S),
    )
    return surroundings(engine, clock)


def surroundings(engine: Engine, clock: Clock) -> Surroundings:
    """Around a trial: nothing is told or saved, and bandwidth is made up."""
    return Surroundings(
        engine=engine,
        machine=FakeMachine(),
        clock=clock,
        progress=lambda _step: None,
        save=lambda _record: None,
    )


def side_by_side(request: RunRequest, around: Surroundings, rounds: int) -> dict[str, Estimate | None]:
    """The ratios from rounds that both had turns in."""
    records = measure_interleaved(
        {"a": request, "b": request}, around, rounds=rounds, budget_s=BUDGET_S, save=lambda _name, _record: None
    )
    return {"decode": paired_decode(records["a"], records["b"]), "prefill": paired_prefill(records["a"], records["b"])}


def one_after_the_other(request: RunRequest, around: Surroundings, rounds: int) -> dict[str, float]:
    """The ratios of the medians of two runs."""
    rule = StoppingRule(relative_half_width=0.0, least=3, minimum=rounds, maximum=rounds)
    first, second = (measure_model(replace(request, rule=rule, budget_s=BUDGET_S), around) for _ in range(2))
    return {
        "decode": (second.decode_tokens_per_second or math.nan) / (first.decode_tokens_per_second or math.nan),
        "prefill": (second.prefill_tokens_per_second or math.nan) / (first.prefill_tokens_per_second or math.nan),
    }


def row(name: str, phase: str, ratios: list[float], held: int | None) -> str:
    """A line of the table: typical and largest factor by which the ratio was wrong."""
    logs = sorted(abs(math.log(ratio)) for ratio in ratios)
    typical = math.exp(math.sqrt(math.fsum(x * x for x in logs) / len(logs)))
    within = sum(x <= math.log(1.1) for x in logs)
    told = "" if held is None else f"{held} of {len(ratios)}"
    return f"| {phase} | {name} | {len(ratios)} | x{typical:.3f} | x{math.exp(logs[-1]):.3f} | {within} | {told} |"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="mean time of the neighbour at work, and at rest")
    parser.add_argument("--minutes", type=float, default=60.0, help="no trial begins after so long")
    parser.add_argument(
        "--simulate", action="store_true", help="a made-up engine and neighbour; of the model only the header counts"
    )
    parser.add_argument("model", type=Path)
    arguments = parser.parse_args()
    clock = RealClock()
    request = RunRequest(
        model=open_model_file(arguments.model),
        prompt_tokens=LENGTH,
        depth=LENGTH,
        threads=arguments.threads,
        flash_attention="on",
    )
    together: dict[str, list[Estimate]] = {phase: [] for phase in PHASES}
    apart: dict[str, list[float]] = {phase: [] for phase in PHASES}
    until_s = clock.now_s() + arguments.minutes * SECONDS_PER_MINUTE
    for trial in range(arguments.trials):
        if clock.now_s() > until_s:
            break
        if arguments.simulate:
            around = simulated(arguments.seconds, trial)
        else:
            around = surroundings(find_engine(timeouts=Timeouts()), clock)
        with nullcontext() if arguments.simulate else neighbour(arguments.seconds, trial):
            paired = side_by_side(request, around, arguments.rounds)
            plain = one_after_the_other(request, around, arguments.rounds)
        for phase in PHASES:
            estimate = paired[phase]
            if estimate is not None:
                together[phase].append(estimate)
            apart[phase].append(plain[phase])
        print(f"trial {trial + 1}: {plain}, {[round(one[-1].point, 3) for one in together.values()]}", file=sys.stderr)
    print("| phase | measured | trials | typical error | largest | within 10 % | interval holds 1 |")
    print("|---|---|---|---|---|---|---|")
    for phase in PHASES:
        intervals = [one.interval for one in together[phase]]
        held = sum(one is not None and one.low <= 1 <= one.high for one in intervals)
        print(row("side by side", phase, [one.point for one in together[phase]], held))
        print(row("one after the other", phase, apart[phase], None))


if __name__ == "__main__":
    main()
