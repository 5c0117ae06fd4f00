"""The guard on real runs of this machine: the same thing twice, and a head that is 10 % slower, measured in turns.

One model is opened once. A pair is ten rounds in which base and head make a repetition each, in balanced order, as `suffice guard --interleave` does with
two files. The heads:

- same: the same again (A/A);
- sleep: it sleeps for a ninth of a repetition's time, which every step has its share of, so that its rate is 10 % lower;
- stall: every tenth step has all of it, and takes about twice as long: also 10 % less, and none of it in the faster steps.

For each: how often the guard said PASS, FAIL and INCONCLUSIVE, and beside it what rivals do on the same numbers: Welch's t on the rates of repetitions as
if they were independent, "worse" when p < 0.05 one-sided (p) and when the means differ by more than 5 % (mean). The same again on numbers resampled from
the real rounds (2,000 pairs, seeded): their A/A, and a head whose steps take 1/0.9 times as long.

Usage: python benchmarks/guard_bars.py MODEL.gguf FILE.jsonl [--pairs 300] [--slower 100] [--threads 2] [--lock LOCKFILE]; --table prints what FILE holds.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Final

from scipy import stats

from suffice.decide.compare_runs import DEFAULT_TOLERANCE, check_interleaved
from suffice.decide.guard_types import Metric, Outcome
from suffice.decide.paired_speed import steady_rate
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.series import warm_up
from suffice.stats.rounds import balanced_order, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.measure.engine.seam import Session

ROUNDS: Final = 10
STEPS: Final = 64  # the most of a repetition of `suffice measure`, which lasts 0.4 s where steps are longer
DEPTH: Final = 32
SLOWER: Final = 0.9
STALL_EVERY: Final = 10
HEADS: Final = ("same", "sleep", "stall")
RESAMPLED: Final = 2000
_ALPHA: Final = 0.05

Rows = list[list[float]]


def repetition(session: Session, head: str) -> list[float]:
    """Seconds of the steps of one repetition; a slower head sleeps, and that time is its own."""
    if not session.rewind(DEPTH):
        session.prefill(DEPTH)
    session.decode(1)
    session.rewind(DEPTH)
    steps = list(session.decode(STEPS))
    if head == "same":
        return steps
    begin_s = time.monotonic()
    time.sleep(math.fsum(steps) * (1 / SLOWER - 1))
    asleep_s = time.monotonic() - begin_s
    hit = range(0, STEPS, STALL_EVERY if head == "stall" else 1)
    return [step + asleep_s / len(hit) * (place in hit) for place, step in enumerate(steps)]


def pair(session: Session, head: str) -> tuple[Rows, Rows]:
    """Ten rounds of base and head."""
    rows: tuple[Rows, Rows] = ([], [])
    for number in range(ROUNDS):
        for place in balanced_order(2, number):
            rows[place].append(repetition(session, ("same", head)[place]))
    return rows


def judged(base: Rows, new: Rows, *, steady: bool = True) -> Outcome:
    """What the guard says; without the faster steps, what it would say by all steps alone."""
    all_steps = [{number: [len(row) / math.fsum(row)] for number, row in enumerate(side)} for side in (base, new)]
    faster = [{number: [steady_rate(row)] for number, row in enumerate(side)} for side in (base, new)]
    check = check_interleaved(
        Metric.DECODE,
        paired_ratio(all_steps[0], all_steps[1]),
        1.0,
        1.0,
        tolerance=DEFAULT_TOLERANCE,
        steady=paired_ratio(faster[0], faster[1]) if steady else None,
    )
    return check.outcome


def welch(base: Rows, new: Rows) -> tuple[bool, bool]:
    """Whether Welch's test, and the means alone, call the head worse."""
    rates = [[len(row) / math.fsum(row) for row in side] for side in (base, new)]
    p = float(stats.ttest_ind(rates[1], rates[0], equal_var=False, alternative="less").pvalue)
    return p < _ALPHA, mean(rates[1]) < (1 - DEFAULT_TOLERANCE) * mean(rates[0])


def line(name: str, pairs: Sequence[tuple[Rows, Rows]]) -> str:
    """A row of the table."""
    with_steady = Counter(judged(*one) for one in pairs)
    without = Counter(judged(*one, steady=False) for one in pairs)
    rivals = [welch(*one) for one in pairs]

    def share(count: int) -> str:
        return f"{count / len(pairs):.1%}"

    cells = [share(with_steady[one]) for one in (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)]
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


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Nobody else who asks for the same lock works meanwhile."""
    with ExitStack() as stack:
        if path is not None:
            file = stack.enter_context(path.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    settings = EngineSettings(n_ctx=16 * DEPTH, n_threads=asked.threads, n_threads_batch=asked.threads)
    with find_engine().open(asked.model, settings) as session:
        warm_up(session)
        session.prefill(DEPTH)
        for number in range(max(asked.pairs, asked.slower)):
            for head in HEADS:
                if number < done[head] or number >= (asked.pairs if head == "same" else asked.slower):
                    continue
                with locked(asked.lock):
                    base, new = pair(session, head)
                with asked.out.open("a") as file:
                    file.write(json.dumps({"head": head, "base": base, "new": new}) + "\n")
                print(f"pair {number} {head}: {judged(base, new)}", file=sys.stderr)


def main() -> None:
    """Make pairs, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--slower", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        run(asked)
    table(read(asked.out))


if __name__ == "__main__":
    main()
