"""Slices against whole files of random weights, in turns on the same machine: how far off is the extrapolation?

For each case the whole stand-in and its slices are written to a cache and opened together; each round times a turn of some steps of
every one of them, in decode at several depths and batches and in prefill. Printed: the extrapolated time over the whole file's, as
the median over rounds of the ratio within a round (a slow minute of the machine hits both) and from the fast quartile of all steps,
beside the spread that the whole file shows against itself: the same two figures of odd rounds against the even ones after them.

Usage: python benchmarks/slices.py [CASE ...] [--engine-library FILE] [--cache FOLDER] [--rounds N] [--json FILE]
Cases: see CASES below; default: all. The largest needs 20 GiB of memory and 20 GiB of disk.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.catalogue.models import model_named
from suffice.loaders.shape_model import ShapeModel, shape_model
from suffice.measure.engine.blocks import EngineBlocks
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.machine import RealMachine
from suffice.measure.shape_run import LEAST_SLICES_BYTES, MODEL_SHARE
from suffice.measure.slice_run import ENOUGH_TO_EMPTY, may_be_cached
from suffice.measure.slice_series import SINGLE_TURNS, STEPS_PER_TURN, WAKING_STEPS
from suffice.model.blueprint import blueprint_header
from suffice.model.extrapolation import extrapolate
from suffice.model.layer_work import decode_work, prefill_work
from suffice.model.recipe import quantized_header
from suffice.model.shape import shape_from_header
from suffice.model.slice_plan import plan_slices
from suffice.model.slices import SliceDesign, design_bytes, whole_model
from suffice.slices.cache import SliceCache
from suffice.stats.intervals import median, quantile
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.engine.client import LlamaCppEngine
    from suffice.measure.engine.seam import Session

CONTEXT_TOKENS: Final = 2048
ROOM_TOKENS: Final = 256
FAST: Final = 0.25
BATCH: Final = 8


@dataclass(frozen=True)
class Case:
    """A model and its recipe; ``n_layer`` cuts it so that the whole fits here, ``limit_bytes`` bounds its slices."""

    name: str
    recipe: str
    n_layer: int | None = None
    limit_bytes: int | None = None
    prompt_tokens: int = 512


CASES: Final = {
    "llama-2-7b:q4_0": Case("llama-2-7b", "q4_0", prompt_tokens=256),
    "llama-3.2-1b:q4_k_m": Case("llama-3.2-1b", "q4_k_m", limit_bytes=900 * MIB),
    "llama-3.2-1b:q8_0": Case("llama-3.2-1b", "q8_0", limit_bytes=1200 * MIB),
    "qwen2.5-0.5b:q4_k_m": Case("qwen2.5-0.5b", "q4_k_m", limit_bytes=500 * MIB),
    "gemma-3-1b:q4_k_m": Case("gemma-3-1b", "q4_k_m", limit_bytes=1000 * MIB),
    "qwen3-30b-a3b:q4_k_m": Case("qwen3-30b-a3b", "q4_k_m", n_layer=40, prompt_tokens=256),
}


@dataclass(frozen=True)
class Emptying:
    """As in a run: single steps where the cache may hold a part of a slice, with or without something that empties it."""

    single: bool
    evict: Callable[[], None] | None


@dataclass
class Series:
    """Seconds of the steps of every session in every round, ``[session][round][step]``: the slices first, the whole file last."""

    name: str
    seconds: list[list[list[float]]] = field(default_factory=list)


def build(case: Case) -> tuple[ShapeModel, SliceDesign]:
    """The model of a case and the design of its slices."""
    spec = model_named(case.name).spec
    if case.n_layer is not None:
        spec = replace(spec, n_layer=case.n_layer)
    header = quantized_header(blueprint_header(spec), case.recipe)
    limit = case.limit_bytes or max(header.tensor_bytes // MODEL_SHARE, LEAST_SLICES_BYTES)
    model = shape_model(header, reference=f"{case.name}:{case.recipe}", source="catalogue")
    return model, plan_slices(header, limit)


def open_all(
    engine: LlamaCppEngine, paths: Sequence[Path], batch: int, threads: int, stack: ExitStack
) -> list[Session]:
    """All slices and the whole file, with the settings of a run."""
    settings = EngineSettings(
        n_ctx=CONTEXT_TOKENS + ROOM_TOKENS,
        n_threads=threads,
        n_threads_batch=threads,
        use_mmap=False,
        flash_attention="off",
        n_sequences=batch,
    )
    return [stack.enter_context(engine.open(path, settings)) for path in paths]


def decode_rounds(  # what is run, where, and how
    sessions: Sequence[Session], depth: int, batch: int, rounds: int, emptying: Emptying
) -> Series:
    """Turns of all sessions at a depth; the caches hold at least that many tokens."""
    series = Series(f"decode, depth {depth}, batch {batch}", [[] for _ in sessions])
    for session in sessions:
        session.rewind(depth)
        if batch > 1:
            session.spread(batch)
    for _ in range(rounds):
        for own in series.seconds:
            own.append([])
        for _ in range(SINGLE_TURNS if emptying.single else 1):
            for own, session in zip(series.seconds, sessions, strict=True):
                session.rewind(depth)
                if emptying.evict is not None:
                    emptying.evict()
                steps = 1 if emptying.single else WAKING_STEPS + STEPS_PER_TURN
                own[-1] += session.decode(steps, batch=batch)[0 if emptying.single else WAKING_STEPS :]
    return series


def prefill_rounds(sessions: Sequence[Session], n_tokens: int, rounds: int) -> Series:
    """The same prompt length in all sessions in turns; an unmeasured round first."""
    series = Series(f"prefill of {n_tokens}", [[] for _ in sessions])
    for done in range(rounds + 1):
        for own, session in zip(series.seconds, sessions, strict=True):
            seconds = sum(session.prefill(n_tokens).seconds)
            if done:
                own.append([seconds])
    return series


def verdict(series: Series, design: SliceDesign, work: Sequence[float]) -> dict[str, float]:
    """Extrapolated over measured, and the whole file against itself."""
    *slices, whole = series.seconds  # the whole file is the last session
    counts = [design.counts(plan) for plan in design.plans]
    full = [median(steps) for steps in whole]
    per_round = extrapolate(counts, [[median(steps) for steps in own] for own in slices], work, design.full_counts)
    fast = extrapolate(counts, [[fast_step(own)] for own in slices], work, design.full_counts)[0]
    return {
        "whole_s": median(full),
        "extrapolated_s": median(per_round),
        "error": median([one / other for one, other in zip(per_round, full, strict=True)]) - 1,
        "error_fast": fast / fast_step(whole) - 1,
        "self": median([one / other for one, other in zip(full[::2], full[1::2], strict=False)]) - 1,
        "self_fast": fast_step(whole[::2]) / fast_step(whole[1::2]) - 1,
        "whole_p90_over_p10": quantile(full, 0.9) / quantile(full, 0.1),
    }


def fast_step(rounds: Sequence[Sequence[float]]) -> float:
    """The fast quartile of all steps."""
    return quantile([seconds for steps in rounds for seconds in steps], FAST)


def run_case(case: Case, engine: LlamaCppEngine, cache: SliceCache, blocks: EngineBlocks, rounds: int) -> list[dict]:  # type: ignore[type-arg]
    """All series of one case."""
    model, design = build(case)
    whole = whole_model(model.header)
    headers = [design.slice_header(plan) for plan in design.plans] + [whole.slice_header(whole.plans[0])]
    quiet: Callable[[str], None] = lambda _text: None  # noqa: E731
    paths = [cache.obtain(header, blocks, progress=quiet) for header in headers]
    machine = RealMachine()
    facts = machine.facts()
    read = [shape_from_header(header).streamed_bytes() for header in headers[:-1]]
    llc_bytes = facts.llc_bytes or 0
    single = may_be_cached(min(read), llc_bytes)
    evict = single and sum(read) - max(read) < ENOUGH_TO_EMPTY * llc_bytes
    emptying = Emptying(single, machine.cache_evictor() if evict else None)
    lengths = ", ".join(f"{len(plan.layers)} ({plan.n_vocab} rows)" for plan in design.plans)
    print(
        f"\n{case.name} {case.recipe}, {model.shape.n_layer} layers, {model.header.tensor_bytes / GIB:.2f} GiB; slices of {lengths}; "
        f"together {design_bytes(design) / GIB:.2f} GiB{'; single steps' if single else ''}{', cache emptied before each' if evict else ''}"
    )
    results = []

    def tell(series: Series, work: Sequence[float]) -> None:
        row = verdict(series, design, work)
        results.append({"case": f"{case.name}:{case.recipe}", "what": series.name, **row, "seconds": series.seconds})
        print(
            f"  {series.name:28s} whole {row['whole_s'] * 1e3:9.2f} ms  extrapolated {row['extrapolated_s'] * 1e3:9.2f} ms  "
            f"error {row['error']:+6.1%} (fast quartile {row['error_fast']:+6.1%})  "
            f"whole against itself {row['self']:+6.1%} ({row['self_fast']:+6.1%}), p90/p10 {row['whole_p90_over_p10']:.2f}",
            flush=True,
        )

    with ExitStack() as stack:
        sessions = open_all(engine, paths, BATCH, facts.usable_cpus, stack)
        prefill = prefill_rounds(sessions, case.prompt_tokens, max(4, rounds // 2))
        tell(prefill, prefill_work(design, model.shape, case.prompt_tokens))
        for depth in (0, CONTEXT_TOKENS):
            if depth:
                for session in sessions:
                    session.prefill(depth)
            for batch in (1, BATCH):
                series = decode_rounds(sessions, depth, batch, rounds, emptying)
                tell(series, decode_work(design, model.shape, depth, batch=batch))
    return results


def summary(results: Sequence[dict]) -> None:  # type: ignore[type-arg]
    """The bars: median and worst error."""
    for key in ("error", "error_fast", "self", "self_fast"):
        errors = sorted(abs(row[key]) for row in results)
        print(f"{key}: median {median(errors):.1%}, worst {errors[-1]:.1%} of {len(errors)} series")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--engine-library", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    engine = find_engine(library=arguments.engine_library)
    results: list[dict] = []  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as scratch, EngineBlocks(engine.choice) as blocks:
        root = arguments.cache or Path(scratch) / "cache"
        for name in arguments.cases:
            started_s = time.perf_counter()
            cache = SliceCache(root, limit_bytes=24 * GIB)
            results += run_case(CASES[name], engine, cache, blocks, arguments.rounds)
            print(f"  took {time.perf_counter() - started_s:.0f} s")
            if arguments.json:
                arguments.json.write_text(json.dumps(results), encoding="utf-8")
            cache.clear()
    summary(results)


if __name__ == "__main__":
    main()
