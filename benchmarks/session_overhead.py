"""What timing through Python costs: suffice's session against llama-bench's loop in C, on the same open context, turn by turn.

Two processes that run the same work differ by about 10 % on a shared machine. Here both loops
use one process, one model and one context, so that only the loop differs. The C loop is llama-bench's: a batch of one random
token, llama_decode, llama_synchronize, the clock read once around all of them (tools/llama-bench, test_gen and test_prompt).

Usage: python benchmarks/session_overhead.py --library libllama.so [--rounds 40] MODEL.gguf [MODEL.gguf ...]   (needs cc)
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from suffice.measure.engine.binding import Binding
from suffice.measure.engine.library import choose_library
from suffice.measure.engine.llama_cpp import LlamaCppSession
from suffice.measure.engine.seam import EngineSettings

STEPS: Final = 64
PROMPT_TOKENS: Final = 256
C_LOOP: Final = """
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
typedef struct { int32_t n_tokens; int32_t *token; float *embd; int32_t *pos; int32_t *n_seq_id; int32_t **seq_id; int8_t *logits; } batch;
double loop(void *ctx, int32_t (*decode)(void *, batch), void (*sync)(void *), int32_t per_call, int32_t calls, int32_t n_vocab) {
    int32_t tokens[4096];
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int32_t i = 0; i < calls; i++) {
        for (int32_t j = 0; j < per_call; j++) tokens[j] = rand() % n_vocab;
        batch one = { per_call, tokens, 0, 0, 0, 0, 0 };
        if (decode(ctx, one) != 0) return -1.0;
        sync(ctx);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}
"""


def compiled(folder: Path) -> ctypes.CDLL:
    """The C loop as a shared library."""
    (folder / "loop.c").write_text(C_LOOP, encoding="utf-8")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", "loop.so", "loop.c"], check=True, cwd=folder)
    library = ctypes.CDLL(str(folder / "loop.so"))
    library.loop.restype = ctypes.c_double
    library.loop.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int32] * 3
    return library


def compare(session: LlamaCppSession, library: ctypes.CDLL, rounds: int) -> dict[str, list[float]]:
    """Ratios of C time to Python time, one per pair of neighbouring repetitions: over 1, Python is faster."""
    functions: list[Any] = [session._evaluator, session._synchronize]  # noqa: SLF001
    addresses = [ctypes.cast(function, ctypes.c_void_p) for function in functions]
    context, vocabulary = session._context, session._n_vocab  # noqa: SLF001
    ratios: dict[str, list[float]] = {"prefill": [], "decode": []}
    for number in range(rounds):
        times: dict[str, float] = {}
        for who in ("c", "python") if number % 2 == 0 else ("python", "c"):
            if who == "python":
                times["python prefill"] = math.fsum(session.prefill(PROMPT_TOKENS).seconds)
                session.rewind(0)
                times["python decode"] = math.fsum(session.decode(STEPS))
                session.rewind(0)
                continue
            times["c prefill"] = library.loop(context, *addresses, PROMPT_TOKENS, 1, vocabulary)
            session._binding.call("llama_memory_clear", session._memory(), False)  # noqa: SLF001
            times["c decode"] = library.loop(context, *addresses, 1, STEPS, vocabulary)
            session._binding.call("llama_memory_clear", session._memory(), False)  # noqa: SLF001
        if number > 0:  # the first pair warms up
            for what, values in ratios.items():
                values.append(times[f"c {what}"] / times[f"python {what}"])
    return ratios


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    binding = Binding(choose_library(arguments.library))
    print("| model | test | pairs | suffice / C loop, median | quartiles |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for model in arguments.models:
            settings = EngineSettings(n_ctx=512, n_threads=arguments.threads, n_threads_batch=arguments.threads)
            session = LlamaCppSession(binding, model, settings)
            for what, values in compare(session, library, arguments.rounds).items():
                low, middle, high = statistics.quantiles(values, n=4)
                print(f"| {model.name} | {what} | {len(values)} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
            session.close()


if __name__ == "__main__":
    main()
