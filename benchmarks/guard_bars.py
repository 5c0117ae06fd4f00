"""The guard on real runs of this machine: the same thing twice, and a head that is 10 % slower, measured in turns.

A pair is ten rounds in which base and head make a repetition of decode each, as `suffice guard --interleave` does with two files: in turns of some steps, whoever
has no turn at rest, half of the rounds after both were loaded again in the opposite order. The heads:

- same: the same again (A/A);
- sleep: it sleeps for a ninth of a piece's time, which every step has its share of, so that its rate is 10 % lower;
- stall: every eleventh step takes 2.2 times as long: also 10 % less, and none of it in the other steps.

For each: how often the guard said PASS, FAIL and INCONCLUSIVE, and beside it what rivals do on the same numbers: Welch's t on the rates of repetitions as
if they were independent, "worse" when p < 0.05 one-sided (p) and when the means differ by more than 5 % (mean). The same again on numbers resampled from
the real rounds (2,000 pairs, seeded): their A/A, and a head whose steps take 1/0.9 times as long.

Usage: python -m benchmarks.guard_bars MODEL.gguf FILE.jsonl [--pairs 300] [--slower 100] [--stalls 30] [--threads 2] [--lock LOCKFILE]; --table prints what FILE holds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.short_runs import OneDepth, locked
from scipy import stats

from suffice.decide.compare_runs import DEFAULT_TOLERANCE, check_interleaved
from suffice.decide.guard_types import Metric, Outcome
from suffice.decide.paired_speed import even_steps, scatter_beyond_rounds
from suffice.measure.clock import RealClock
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.rounds import take_turns
from suffice.measure.series import DecodeAt, Part, SeriesRunner, SeriesState, ThreadChoice, warm_up
from suffice.stats.rounds import paired_ratio
from suffice.stats.stopping import StoppingRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.measure.engine.seam import Session

ROUNDS: Final = 10
STEPS: Final = 56  # 0.4 s, as a repetition of `suffice measure` with steps of 7 ms
PIECE: Final = 4  # steps of a turn, which lasts 0.03 s
YIELD_S: Final = 0.05
DEPTH: Final = 32
SLOWER: Final = 0.9
STALL_EVERY: Final = 11  # steps that wake a turn are every fifth, and do not count: stalls must not fall on them alone
HEADS: Final = ("same", "sleep", "stall")
RESAMPLED: Final = 2000
_ALPHA: Final = 0.05
# What `suffice guard` adds for two openings, beyond what so many rounds show of them.
_OF_OPENINGS: Final = scatter_beyond_rounds(2, ROUNDS)

Rows = list[list[float]]


class Slowed:
    """A session that sleeps after decoding; that time is its steps' own."""

    def __init__(self, session: Session, head: str) -> None:
        self._session, self._head, self._made = session, head, 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever a session can do
        return getattr(self._session, name)

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """As the session, and then asleep."""
        steps = list(self._session.decode(n_steps, batch=batch))
        places = range(self._made, self._made + n_steps)
        self._made += n_steps
        hit = [place % STALL_EVERY == 0 for place in places] if self._head == "stall" else [True] * n_steps
        share = (1 / SLOWER - 1) * (STALL_EVERY if self._head == "stall" else 1)
        if self._head == "same" or not any(hit):
            return tuple(steps)
        begin_s = time.monotonic()
        time.sleep(share * math.fsum(steps) / n_steps * sum(hit))
        each_s = (time.monotonic() - begin_s) / sum(hit)
        return tuple(step + each_s * is_hit for step, is_hit in zip(steps, hit, strict=True))


def pair(model: Path, head: str, threads: int) -> tuple[Rows, Rows]:
    """Ten rounds of base and head."""
    settings = EngineSettings(n_ctx=16 * DEPTH, n_threads=threads, n_threads_batch=threads)
    engine, clock, names = find_engine(), RealClock(), ("base", "head")
    plan = OneDepth(
        prompt_tokens=1, depth=DEPTH, steps=STEPS, budget_s=math.inf, rule=StoppingRule(), piece_steps=PIECE, wakes=True
    )
    states = {
        name: SeriesState(threads=ThreadChoice(decode=threads, prefill=threads), prompt_tokens=1) for name in names
    }
    for half in (names, names[::-1]):
        with ExitStack() as stack:
            opened = {name: stack.enter_context(engine.open(model, settings)) for name in half}
            runners = {}
            for name in names:
                warm_up(opened[name])
                opened[name].rest()
                session = opened[name] if name == "base" else Slowed(opened[name], head)
                runners[name] = SeriesRunner(session, clock, plan, states[name])
            for number in range(ROUNDS // 2):
                pieces = {name: resting(runners[name].turn(Part.DEEP), opened[name]) for name in names}
                take_turns(pieces, number + (half is not names))
    base, new = ([list(row) for row in states[name].step_rows[DecodeAt(DEPTH)]] for name in names)
    return base, new


def resting(pieces: Iterator[None], session: Session) -> Iterator[None]:
    """The session rests after each piece."""
    for _ in pieces:
        session.rest()
        yield


def judged(base: Rows, new: Rows, *, by_even: bool = True) -> Outcome:
    """What the guard says; without the even steps, what it would say by all steps alone."""
    sides = [{number: [row] for number, row in enumerate(side)} for side in (base, new)]
    rates = [{number: [len(row) / math.fsum(row) for row in rows] for number, rows in side.items()} for side in sides]
    check = check_interleaved(
        Metric.DECODE,
        paired_ratio(rates[0], rates[1]),
        1.0,
        1.0,
        tolerance=DEFAULT_TOLERANCE,
        even=even_steps(sides[0], sides[1]) if by_even else None,
        of_openings=_OF_OPENINGS,
    )
    return check.outcome


def welch(base: Rows, new: Rows) -> tuple[bool, bool]:
    """Whether Welch's test, and the means alone, call the head worse."""
    rates = [[len(row) / math.fsum(row) for row in side] for side in (base, new)]
    p = float(stats.ttest_ind(rates[1], rates[0], equal_var=False, alternative="less").pvalue)
    return p < _ALPHA, mean(rates[1]) < (1 - DEFAULT_TOLERANCE) * mean(rates[0])


def line(name: str, pairs: Sequence[tuple[Rows, Rows]]) -> str:
    """A row of the table."""
    by_both = Counter(judged(*one) for one in pairs)
    without = Counter(judged(*one, by_even=False) for one in pairs)
    rivals = [welch(*one) for one in pairs]

    def share(count: int) -> str:
        return f"{count / len(pairs):.1%}"

    cells = [share(by_both[one]) for one in (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)]
    cells += [f"{share(without[Outcome.PASS])} / {share(without[Outcome.FAIL])}"]
    cells += [share(sum(one[0] for one in rivals)), share(sum(one[1] for one in rivals))]
    return f"| {name} | {len(pairs)} | " + " | ".join(cells) + " |"


def table(found: dict[str, list[tuple[Rows, Rows]]]) -> None:
    """Print what was found, and the same on resampled numbers."""
    print(
        "| head | pairs | PASS | FAIL | INCONCLUSIVE | all steps alone: PASS / FAIL | Welch p < 5 % | means 5 % apart |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, pairs in found.items():
        if pairs:
            print(line(name, pairs))
    rounds = [both for base, new in found["same"] for both in zip(base, new, strict=True)]
    if not rounds:
        return
    draw = random.Random(1)  # noqa: S311  # reproducible, no secret

    def resampled(factor: float) -> list[tuple[Rows, Rows]]:
        made = []
        for _ in range(RESAMPLED):
            taken = [draw.choice(rounds)[:: draw.choice((1, -1))] for _ in range(ROUNDS)]
            made.append(([base for base, _ in taken], [[factor * step for step in new] for _, new in taken]))
        return made

    print(line("same, resampled", resampled(1.0)))
    print(line("10 % slower, resampled", resampled(1 / SLOWER)))


def read(path: Path) -> dict[str, list[tuple[Rows, Rows]]]:
    """Pairs by head."""
    found: dict[str, list[tuple[Rows, Rows]]] = {head: [] for head in HEADS}
    for text in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(text)
        found[row["head"]].append((row["base"], row["new"]))
    return found


def run(asked: argparse.Namespace) -> None:
    """Make the pairs that FILE lacks, heads in turns."""
    done = {head: len(pairs) for head, pairs in read(asked.out).items()}
    asked_for = {"same": asked.pairs, "sleep": asked.slower, "stall": asked.stalls}
    for number in range(max(asked_for.values())):
        for head in HEADS:
            if number < done[head] or number >= asked_for[head]:
                continue
            with locked(asked.lock):
                base, new = pair(asked.model, head, asked.threads)
            with asked.out.open("a") as file:
                file.write(json.dumps({"head": head, "base": base, "new": new}) + "\n")
            print(f"pair {number} {head}: {judged(base, new)}", file=sys.stderr)
            time.sleep(YIELD_S)  # to others who wait for the lock


def main() -> None:
    """Make pairs, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--slower", type=int, default=100)
    parser.add_argument("--stalls", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        run(asked)
    table(read(asked.out))


if __name__ == "__main__":
    main()
