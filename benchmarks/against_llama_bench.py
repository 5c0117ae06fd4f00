"""suffice against llama-bench: the same libllama, the same threads, the same model, turn by turn in one run.

Usage:
    python benchmarks/against_llama_bench.py --build DIR/build/bin --threads 2 --rounds 12 MODEL.gguf [MODEL.gguf ...]

Each round runs llama-bench (pp512, tg128) and suffice (512 tokens; 128 steps from an empty cache; contexts as small as
llama-bench makes them), in the order A B, B A, A B ... Both keep every repetition. On a shared machine single repetitions scatter
by 20 %, alike for both tools, so the figures are ratios over all repetitions: of the medians, and of the upper quartiles (the
fast end, which neighbours disturb least).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from suffice.measure.cpu import read_cpu_facts
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings

PROMPT_TOKENS: Final = 512
STEPS: Final = 128
REPETITIONS: Final = 3  # of each tool within a round


def with_llama_bench(build: Path, model: Path, threads: int) -> tuple[list[float], list[float]]:
    """Prefill and decode rates of llama-bench, one per repetition, from its raw samples."""
    command = [
        str(build / "llama-bench"),
        "-m",
        str(model),
        "-p",
        str(PROMPT_TOKENS),
        "-n",
        str(STEPS),
        "-t",
        str(threads),
    ]
    command += ["-r", str(REPETITIONS), "-o", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    rates = [
        [tokens * 1e9 / sample for sample in row["samples_ns"]]
        for row, tokens in zip(rows, (PROMPT_TOKENS, STEPS), strict=True)
    ]
    return rates[0], rates[1]


def with_suffice(build: Path, model: Path, threads: int) -> tuple[list[float], list[float]]:
    """The same rates through suffice's session on the same library."""
    engine = find_engine(library=next(build.glob("libllama.*")))
    prefill, decode = [], []
    with engine.open(model, EngineSettings(n_ctx=PROMPT_TOKENS, n_threads=threads, n_threads_batch=threads)) as session:
        session.prefill(PROMPT_TOKENS)  # warm-up, as llama-bench does
        for _ in range(REPETITIONS):
            chunks = session.prefill(PROMPT_TOKENS)
            prefill.append(PROMPT_TOKENS / math.fsum(chunks.seconds))
    with engine.open(model, EngineSettings(n_ctx=STEPS, n_threads=threads, n_threads_batch=threads)) as session:
        session.decode(1)
        for _ in range(REPETITIONS):
            session.rewind(0)
            decode.append(STEPS / math.fsum(session.decode(STEPS)))
    return prefill, decode


def compare(build: Path, model: Path, threads: int, rounds: int) -> list[str]:
    """Rows of a Markdown table for one model."""
    theirs: tuple[list[float], list[float]] = ([], [])
    ours: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        order = [(with_llama_bench, theirs), (with_suffice, ours)]
        for measure, results in order if number % 2 == 0 else reversed(order):
            for pool, rates in zip(results, measure(build, model, threads), strict=True):
                pool.extend(rates)
        print(f"# {model.name}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    rows = []
    for index, what in enumerate((f"prefill {PROMPT_TOKENS}", f"decode {STEPS}")):
        mine, other = ours[index], theirs[index]
        quartiles = [statistics.quantiles(rates, n=4) for rates in (mine, other)]
        rows.append(
            f"| {model.name} | {what} | {len(mine)} | {quartiles[1][1]:.1f} | {quartiles[0][1]:.1f} | "
            f"{quartiles[0][1] / quartiles[1][1]:.3f} | {quartiles[0][2] / quartiles[1][2]:.3f} | "
            f"{max(other) / min(other):.2f} and {max(mine) / min(mine):.2f} |"
        )
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="folder with llama-bench and libllama")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        rows += compare(arguments.build, model, arguments.threads, arguments.rounds)
    facts = read_cpu_facts()
    print(f"\n{facts.model_name}, {arguments.threads} threads, {platform.system()}, {arguments.rounds} rounds\n")
    print(
        "| model | test | repetitions | llama-bench, tokens/s | suffice, tokens/s | ratio of medians | of upper quartiles | max / min within each |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
