"""llama-cpp-python (compiled for this CPU) against xllamacpp (prebuilt), turn by turn in one run.

Usage: python benchmarks/engines.py [--library FILE] [--rounds 5] MODEL.gguf [MODEL.gguf ...]
Both packages must be installed; --library takes the place of llama-cpp-python, for a libllama of your own build.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from suffice.measure.cpu import read_cpu_facts
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings

if TYPE_CHECKING:
    from suffice.measure.engine.seam import Engine


def rates(engine: Engine, model: Path, threads: int) -> tuple[float, float]:
    """Prefill of 512 and decode of 64 steps behind it, in tokens per second; median of three."""
    settings = EngineSettings(n_ctx=1024, n_threads=threads, n_threads_batch=threads)
    prefill, decode = [], []
    with engine.open(model, settings) as session:
        session.prefill(64)
        session.decode(4)
        for _ in range(3):
            prefill.append(512 / math.fsum(session.prefill(512).seconds))
            decode.append(64 / math.fsum(session.decode(64)))
    return statistics.median(prefill), statistics.median(decode)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--library", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    native = find_engine(library=arguments.library, prefer=None if arguments.library else "llama-cpp-python")
    prebuilt = find_engine(prefer="xllamacpp")
    print(f"{read_cpu_facts().model_name}, {arguments.threads} threads, {arguments.rounds} rounds")
    for engine in (native, prebuilt):
        print(f"{engine.identity.name} {engine.identity.version or ''} uses {', '.join(engine.identity.isa_used)}")
    print(
        "\n| model | test | native, tokens/s | prebuilt, tokens/s | prebuilt / native, median | range |\n|---|---|---|---|---|---|"
    )
    for model in arguments.models:
        pairs = [
            (rates(native, model, arguments.threads), rates(prebuilt, model, arguments.threads))
            for _ in range(arguments.rounds)
        ]
        for index, what in enumerate(("prefill 512", "decode at depth 512")):
            ratios = [other[index] / mine[index] for mine, other in pairs]
            mine, other = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
            print(
                f"| {model.name} | {what} | {mine:.1f} | {other:.1f} | {statistics.median(ratios):.2f} | "
                f"{min(ratios):.2f} to {max(ratios):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
