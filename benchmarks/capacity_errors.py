"""How often ``--find-capacity`` would be wrong about a level: simulated queues whose percentile lies exactly at the limit.

There neither "holds" nor "fails" is right, and each should be said with at most the risk. Deterministic service, Poisson arrivals, from an
empty server. The limit is the percentile of one long simulation. Prints a Markdown table.

    python benchmarks/capacity_errors.py [--levels 400] [--requests 1000]
"""

from __future__ import annotations

import argparse
import random
import sys

from suffice.stats.sequential import ShareVerdict, correlation_time, share_verdict

SHARE = 0.95
WARM_UP = 20
LONG = 300_000
RISKS = (0.05, 0.005)


def waits_s(load: float, count: int, slots: int, chance: random.Random) -> list[float]:
    """Waits of a queue with so many slots and a service of one second, at a load between 0 and 1."""
    free_s, at_s, found = [0.0] * slots, 0.0, []
    for _ in range(count):
        at_s += chance.expovariate(load * slots)
        slot = min(range(slots), key=free_s.__getitem__)
        begins_s = max(free_s[slot], at_s)
        free_s[slot] = begins_s + 1.0
        found.append(begins_s - at_s)
    return found


def verdicts(waits: list[float], limit_s: float) -> dict[tuple[float, bool], ShareVerdict]:
    """The first verdict of a level by risk, and by whether the correlation was seen."""
    scores = [wait_s / limit_s for wait_s in waits[WARM_UP:]]
    found: dict[tuple[float, bool], ShareVerdict] = {}
    number = 20
    while True:
        number = min(number, len(scores))
        kept = sum(score <= 1 for score in scores[:number])
        times = {True: correlation_time(scores[:number]), False: 1.0}
        for risk in RISKS:
            for seen, time in times.items():
                verdict = share_verdict(kept / time, number / time, SHARE, risk=risk)
                if found.get((risk, seen), ShareVerdict.UNDECIDED) is ShareVerdict.UNDECIDED:
                    found[risk, seen] = verdict
        if number == len(scores):
            return found
        number = max(number + 1, int(number * 1.25))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", type=int, default=400)
    parser.add_argument("--requests", type=int, default=1000)
    asked = parser.parse_args()
    print(
        "| queue | load | risk | wrong holds | wrong fails | wrong holds, taken as independent |\n|---|---|---|---|---|---|"
    )
    for slots in (1, 4):
        for load in (0.5, 0.7, 0.85, 0.95):
            chance = random.Random(round(100 * load) + slots)  # noqa: S311  # a simulation that can be repeated
            limit_s = sorted(waits_s(load, LONG, slots, chance))[int(SHARE * LONG)]
            levels = [
                verdicts(waits_s(load, asked.requests + WARM_UP, slots, chance), limit_s) for _ in range(asked.levels)
            ]
            for risk in RISKS:
                seen = [level[risk, True] for level in levels]
                blind = [level[risk, False] for level in levels]
                shares = [
                    seen.count(ShareVerdict.HOLDS),
                    seen.count(ShareVerdict.FAILS),
                    blind.count(ShareVerdict.HOLDS),
                ]
                cells = " | ".join(f"{100 * share / asked.levels:.1f} %" for share in shares)
                print(f"| M/D/{slots} | {load} | {100 * risk:g} % | {cells} |")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
