"""suffice against llama-perplexity: perplexity, divergence, and the time of multiple choice, on the same libllama.

    python benchmarks/against_llama_perplexity.py --build DIR/build/bin perplexity --text FILE MODEL.gguf
    python benchmarks/against_llama_perplexity.py --build DIR/build/bin divergence --text FILE REFERENCE.gguf CANDIDATE.gguf
    python benchmarks/against_llama_perplexity.py --build DIR/build/bin cost --text FILE --tokens 2048,20480 REFERENCE.gguf CANDIDATE.gguf...
    python benchmarks/against_llama_perplexity.py --build DIR/build/bin choices --items many.jsonl --rounds 2 MODEL.gguf

Both see the same windows of 512 tokens, of which the second half is scored. llama-perplexity keeps the reference's log-probabilities in 16 bits
and leaves out tokens less likely than e^-16; suffice takes all, in double precision. `divergence` therefore shows two things beside: llama-perplexity's
own noise floor (the reference against its own file), and suffice's logits put through llama-perplexity's arithmetic, which has to give its figures.
`cost` tells time, the statistics' share of it, memory, and what reading all candidates in step saves. For the choices, prompts and choices are those of the items, asked without a template, summed log-probabilities divided
by the tokens as llama-perplexity does; time is that of the whole process, model load and all, turn by turn.

llama-perplexity is built beside llama-bench (`build_llama_bench.sh DIR`): `cmake --build DIR/build --target llama-perplexity`.
"""

from __future__ import annotations

import argparse
import math
import re
import struct
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import numpy as np
import psutil

from suffice.loaders.items import load_items
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine import text_distance
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_client import find_text_engine
from suffice.measure.engine.text_distance import measure_distances, perplexity_windows
from suffice.measure.prompting import Prompting
from suffice.model.answers import ChoiceLogprob
from suffice.model.items import ChoiceLength
from suffice.model.scoring import choice_score
from suffice.quality.distance import DocumentDistances, distances_in_step
from suffice.quants.distances import DistanceRun, compared, measure_distances_of
from suffice.quants.texts import documents_of
from suffice.stats.documents import document_mean, perplexity
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from suffice.measure.engine.text_seam import TextSession
    from suffice.model.items import Item

WINDOW: Final = 512
THEIR_RANGE: Final = 16.0  # nats below the most likely token that llama-perplexity's file keeps
THEIR_STEPS: Final = 65_535
NUMBER: Final = r"\s*:\s*([0-9.e+-]+)"


def run_theirs(build: Path, threads: int, *arguments: object) -> str:
    """What llama-perplexity prints."""
    command = [str(build / "llama-perplexity"), "-t", str(threads), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace")
    return done.stdout + done.stderr


def settings(threads: int, batch: int = WINDOW, flash_attention: str = "auto") -> EngineSettings:
    """The same window, batch, threads and attention."""
    return EngineSettings(
        n_ctx=WINDOW,
        n_threads=threads,
        n_threads_batch=threads,
        n_batch=batch,
        n_ubatch=batch,
        flash_attention=flash_attention,
    )


def text_settings(arguments: argparse.Namespace) -> EngineSettings:
    """Those of the windows."""
    return settings(arguments.threads, arguments.batch, arguments.flash_attention)


def window_options(arguments: argparse.Namespace) -> tuple[object, ...]:
    """Windows and batch for llama-perplexity."""
    return (
        "-c",
        WINDOW,
        "-b",
        arguments.batch,
        "-ub",
        arguments.batch,
        "--chunks",
        arguments.windows,
        "-fa",
        arguments.flash_attention,
    )


def text_tokens(session: TextSession, text: Path, windows: int) -> tuple[int, ...]:
    """The tokens of the first windows, as llama-perplexity makes them."""
    words = text.read_text(encoding="utf-8").removesuffix("\n")
    return session.tokenize(words, add_special=True, parse_special=False)[: windows * WINDOW]


def distances(arguments: argparse.Namespace, models: list[Path]) -> DocumentDistances:
    """Our own figures over the first windows of a text; one model is compared with itself."""
    engine = find_text_engine(next(arguments.build.glob("libllama.*")))
    found = DocumentDistances()
    with (
        engine.open_text(models[0], text_settings(arguments)) as reference,
        engine.open_text(models[-1], text_settings(arguments)) as candidate,
    ):
        tokens = text_tokens(reference, arguments.text, arguments.windows)
        for _ in measure_distances(reference, candidate, [("text", tokens)], found, windows=perplexity_windows):
            pass
    return found


def show(rows: list[tuple[str, float, float]]) -> None:
    """A Markdown table of theirs and ours."""
    print("| | llama-perplexity | suffice | suffice / llama-perplexity |\n|---|---|---|---|")
    for name, theirs, ours in rows:
        print(f"| {name} | {theirs:.6g} | {ours:.6g} | {ours / theirs:.6f} |")


def compare_perplexity(arguments: argparse.Namespace) -> None:
    """One model."""
    common = (*window_options(arguments), "-f", arguments.text)
    printed = run_theirs(arguments.build, arguments.threads, "-m", arguments.models[0], *common)
    found = re.search(r"Final estimate: PPL = ([0-9.]+)", printed)
    if found is None:
        raise SystemExit(printed[-2000:])
    ours = distances(arguments, arguments.models)
    show([("perplexity", float(found[1]), perplexity(ours.reference_losses()).value)])
    print(f"largest divergence of the model from itself: {max(values.max() for values in ours.divergences())}")


def their_divergence(
    reference: NDArray[np.float32], candidate: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Divergences as llama-perplexity computes them: log-probabilities in 16 bits over 16 nats, those below e^-16 left out."""
    top = reference.max(axis=1, keepdims=True).astype(np.float64)
    low = np.maximum(reference.min(axis=1, keepdims=True), top - THEIR_RANGE)
    steps = np.rint(np.maximum(reference - low, 0) * (THEIR_STEPS / (top - low)))
    kept = low - top - np.log(np.exp(reference - top).sum(axis=1, keepdims=True)) + steps * (top - low) / THEIR_STEPS
    shifted = candidate - candidate.max(axis=1, keepdims=True).astype(np.float64)
    other = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    terms = np.where(kept > -THEIR_RANGE, np.exp(kept) * (kept - other), 0.0)
    return terms.sum(axis=1), kept.argmax(axis=1) == candidate.argmax(axis=1)


def our_logits_their_way(
    arguments: argparse.Namespace, models: list[Path]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The divergences and equal tops that llama-perplexity's arithmetic makes of the logits that suffice gets."""
    engine = find_text_engine(next(arguments.build.glob("libllama.*")))
    found = []
    with (
        engine.open_text(models[0], text_settings(arguments)) as reference,
        engine.open_text(models[-1], text_settings(arguments)) as candidate,
    ):
        tokens = text_tokens(reference, arguments.text, arguments.windows)
        for window in perplexity_windows(len(tokens), WINDOW):
            read = tokens[window.start : window.end - 1]
            bos = reference.facts.vocabulary.bos
            if reference.facts.vocabulary.adds_bos and bos is not None:
                read = (bos, *read[1:])
            first = window.scored_from - window.start - 1
            blocks = zip(
                reference.logits(read, first_position=first), candidate.logits(read, first_position=first), strict=True
            )
            found += [their_divergence(one.rows, other.rows) for one, other in blocks]
    return np.concatenate([values for values, _ in found]), np.concatenate([same for _, same in found])


def run_their_divergence(arguments: argparse.Namespace, folder: Path, candidate: Path) -> str:
    """What llama-perplexity prints of a candidate, with the reference's file in the folder, which is made when it is not there."""
    base = folder / "base"
    common = window_options(arguments)
    if not base.exists():
        run_theirs(
            arguments.build, arguments.threads, "-m", arguments.models[0], *common, "-f", arguments.text,
            "--kl-divergence-base", base,
        )  # fmt: skip
    return run_theirs(
        arguments.build, arguments.threads, "-m", candidate, *common, "--kl-divergence", "--kl-divergence-base", base
    )


def compare_divergence(arguments: argparse.Namespace) -> None:
    """Two models."""
    reference, candidate = arguments.models
    with tempfile.TemporaryDirectory() as name:
        printed = run_their_divergence(arguments, Path(name), candidate)
        itself = run_their_divergence(arguments, Path(name), reference)
    found = distances(arguments, arguments.models)
    (values,) = found.divergences()
    rounded, same_top = our_logits_their_way(arguments, arguments.models)
    rows: dict[str, tuple[float, float]] = {
        "Mean    KLD": (document_mean(found.divergence_totals()).value, float(rounded.mean())),
        "Maximum KLD": (float(values.max()), float(rounded.max())),
        "99.0%   KLD": (float(np.quantile(values, 0.99)), float(np.quantile(rounded, 0.99))),
        "Same top p": (100 * document_mean(found.same_top_totals()).value, 100 * float(same_top.mean())),
        "Mean PPL(Q)": (perplexity(found.candidate_losses()).value, math.nan),
        "Mean PPL(base)": (perplexity(found.reference_losses()).value, math.nan),
    }
    print(
        f"{reference.name} and {candidate.name}: {arguments.windows} windows of {WINDOW}, {len(values)} tokens scored"
    )
    print("| | llama-perplexity | suffice | difference | its noise floor | suffice's logits, its arithmetic |")
    print("|---|---|---|---|---|---|")
    for key, (ours, their_way) in rows.items():
        theirs = _number(printed, key)
        cells = [theirs, ours, ours - theirs, _number(itself, key), their_way]
        shown = ["–" if math.isnan(cell) else f"{cell:.6g}" for cell in cells]
        print(f"| {' '.join(key.split())} | {' | '.join(shown)} |")


def _number(printed: str, name: str) -> float:
    found = re.search(re.escape(name) + NUMBER, printed)
    return float(found[1]) if found else math.nan


def show_cost(arguments: argparse.Namespace) -> None:
    """Time, the statistics' share, and memory of this process, in step and one candidate after the other."""
    engine = find_text_engine(next(arguments.build.glob("libllama.*")))
    asked = settings(arguments.threads)
    reference, *candidates = [
        compared(f"{place} {path.name}", open_model_file(path), asked, identity=str(path))
        for place, path in enumerate(arguments.models)
    ]
    spent_s = [0.0]
    in_step = distances_in_step

    def timed(*given: Any) -> Any:  # noqa: ANN401 - hands on what it gets
        start_s = time.perf_counter()
        found = in_step(*given)
        spent_s[0] += time.perf_counter() - start_s
        return found

    print("| tokens | candidates | read | s | statistics, % | this process, MiB |\n|---|---|---|---|---|---|")
    with patch.object(text_distance, "distances_in_step", timed):
        for tokens in arguments.tokens:
            for together in (True, False) if len(candidates) > 1 else (True,):
                groups = [candidates] if together else [[one] for one in candidates]
                spent_s[0], start_s = 0.0, time.perf_counter()
                for group in groups:
                    run = DistanceRun(
                        engine=engine, settings=asked, texts=documents_of((), [arguments.text]), max_tokens=tokens,
                        noise_floor=False,
                    )  # fmt: skip
                    measure_distances_of(run, reference, group)
                passed_s = time.perf_counter() - start_s
                memory = psutil.Process().memory_info().rss / MIB
                how = "in step" if together else "one after the other"
                share = 100 * spent_s[0] / passed_s
                print(
                    f"| {tokens} | {len(candidates)} | {how} | {passed_s:.1f} | {share:.1f} | {memory:.0f} |",
                    flush=True,
                )


def write_tasks(path: Path, items: list[Item]) -> None:
    """The items in llama-perplexity's own format."""
    tasks = []
    for item in items:
        answers = struct.pack("<I", len(item.choices)) + b"".join(_text(choice) for choice in item.choices)
        labels = struct.pack(
            f"<{len(item.choices)}i", *(int(place in item.correct) for place in range(len(item.choices)))
        )
        tasks.append(_text(item.prompt or "") + (answers + labels) + struct.pack("<I", 0))
    starts = [4 + 4 * len(tasks) + sum(map(len, tasks[:number])) for number in range(len(tasks))]
    path.write_bytes(struct.pack(f"<{1 + len(tasks)}I", len(tasks), *starts) + b"".join(tasks))


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<I", len(raw)) + raw


def their_choices(arguments: argparse.Namespace, tasks: Path) -> float:
    """Accuracy of llama-perplexity."""
    printed = run_theirs(
        arguments.build, arguments.threads, "-m", arguments.models[0], "-bf", tasks, "--multiple-choice",
        "-c", WINDOW, "-b", WINDOW, "-np", 64,
    )  # fmt: skip
    found = re.search(r"Final result: ([0-9.]+)", printed)
    if found is None:
        raise SystemExit(printed[-2000:])
    return float(found[1])


def our_choices(arguments: argparse.Namespace, items: list[Item]) -> float:
    """The same through suffice."""
    engine = find_text_engine(next(arguments.build.glob("libllama.*")))
    right = 0.0
    with engine.open_text(arguments.models[0], settings(arguments.threads)) as session:
        prompting = Prompting(session, None)
        found = session.choice_logprobs(prompting.question(item) for item in items)
        for item, logprobs in zip(items, found, strict=True):
            sums = [ChoiceLogprob(total=math.fsum(values), tokens=len(values)) for values in logprobs]
            right += choice_score(sums, item.choices, item.correct, ChoiceLength.TOKEN).value or 0.0
    return 100 * right / len(items)


def compare_choices(arguments: argparse.Namespace) -> None:
    """Accuracy and time of both, turn by turn."""
    items = [replace(item, messages=()) for item in load_items(arguments.items).items if item.asks_choices]
    seconds: tuple[list[float], list[float]] = ([], [])
    results = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        tasks = Path(folder, "tasks")
        write_tasks(tasks, items)
        both: tuple[Callable[[], float], ...] = (
            lambda: their_choices(arguments, tasks),
            lambda: our_choices(arguments, items),
        )
        for number in range(arguments.rounds):
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                start_s = time.monotonic()
                results[place] = both[place]()
                seconds[place].append(time.monotonic() - start_s)
    show([("accuracy, %", results[0], results[1]), ("fastest time, s", min(seconds[0]), min(seconds[1]))])
    print(f"{len(items)} items; all times: {seconds}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="folder with llama-perplexity and libllama")
    parser.add_argument("--threads", type=int, default=2)
    kinds = parser.add_subparsers(required=True)
    for name, function in (("perplexity", compare_perplexity), ("divergence", compare_divergence)):
        kind = kinds.add_parser(name)
        kind.add_argument("--text", type=Path, required=True)
        kind.add_argument("--windows", type=int, default=8)
        kind.add_argument("--batch", type=int, default=64, help="tokens of an evaluation")
        kind.add_argument(
            "--flash-attention", default="off", help="off: the engine's rounding does not depend on how texts are cut"
        )
        kind.set_defaults(function=function)
    cost = kinds.add_parser("cost")
    cost.add_argument("--text", type=Path, required=True)
    cost.add_argument(
        "--tokens",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[2048],
        help="one number or several",
    )
    cost.set_defaults(function=show_cost)
    choices = kinds.add_parser("choices")
    choices.add_argument("--items", type=Path, required=True)
    choices.add_argument("--rounds", type=int, default=1)
    choices.set_defaults(function=compare_choices)
    for kind in kinds.choices.values():
        kind.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
