"""suffice against llama-bench: the same libllama, the same threads, the same model, turn by turn in one run.

Usage:
    python benchmarks/against_llama_bench.py --build DIR/build/bin --threads 2 --rounds 5 MODEL.gguf [MODEL.gguf ...]

Each round runs llama-bench (pp512, tg128) and suffice (512 tokens, then 128 steps from an empty cache), in alternating order.
The figure is the median over rounds of the ratio within a round: what the machine does between rounds cancels.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
from pathlib import Path
from typing import Final

from suffice.measure.cpu import read_cpu_facts
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings

PROMPT_TOKENS: Final = 512
STEPS: Final = 128
REPETITIONS: Final = 3  # of each tool within a round


def with_llama_bench(build: Path, model: Path, threads: int) -> tuple[float, float]:
    """Median prefill and decode rate of llama-bench, from its raw samples."""
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
    rates = []
    for row, tokens in zip(rows, (PROMPT_TOKENS, STEPS), strict=True):
        rates.append(statistics.median(tokens * 1e9 / sample for sample in row["samples_ns"]))
    return rates[0], rates[1]


def with_suffice(build: Path, model: Path, threads: int) -> tuple[float, float]:
    """The same two rates through suffice's session on the same library."""
    engine = find_engine(library=next(build.glob("libllama.*")))
    settings = EngineSettings(n_ctx=768, n_threads=threads, n_threads_batch=threads, n_batch=512, n_ubatch=512)
    prefill, decode = [], []
    with engine.open(model, settings) as session:
        session.prefill(PROMPT_TOKENS)  # warm-up, as llama-bench does
        for _ in range(REPETITIONS):
            prefill.append(PROMPT_TOKENS / math.fsum(session.prefill(PROMPT_TOKENS).seconds))
        session.prefill(1)
        session.decode(1)
        for _ in range(REPETITIONS):
            session.rewind(0)
            decode.append(STEPS / math.fsum(session.decode(STEPS)))
    return statistics.median(prefill), statistics.median(decode)


def compare(build: Path, model: Path, threads: int, rounds: int) -> list[str]:
    """Rows of a Markdown table for one model."""
    theirs: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    for number in range(rounds):
        order = [(with_llama_bench, theirs), (with_suffice, ours)]
        for measure, results in order if number % 2 == 0 else reversed(order):
            results.append(measure(build, model, threads))
            print(f"# {model.name} round {number}: {measure.__name__} {results[-1]}", flush=True)
    rows = []
    for index, what in enumerate((f"prefill {PROMPT_TOKENS}", f"decode {STEPS}")):
        ratios = [mine[index] / other[index] for mine, other in zip(ours, theirs, strict=True)]
        rows.append(
            f"| {model.name} | {what} | {statistics.median(t[index] for t in theirs):.1f} | "
            f"{statistics.median(o[index] for o in ours):.1f} | {statistics.median(ratios):.3f} | "
            f"{min(ratios):.3f} to {max(ratios):.3f} |"
        )
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="folder with llama-bench and libllama")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        rows += compare(arguments.build, model, arguments.threads, arguments.rounds)
    facts = read_cpu_facts()
    print(f"\n{facts.model_name}, {arguments.threads} threads, {platform.system()}, {arguments.rounds} rounds\n")
    print("| model | test | llama-bench, tokens/s | suffice, tokens/s | ratio, median of rounds | ratio, range |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
