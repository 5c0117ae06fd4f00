"""suffice against llama-perplexity: perplexity, divergence, and the time of multiple choice, on the same libllama.

    python benchmarks/against_llama_perplexity.py --build DIR/build/bin perplexity --text FILE MODEL.gguf
    python benchmarks/against_llama_perplexity.py --build DIR/build/bin divergence --text FILE REFERENCE.gguf CANDIDATE.gguf
    python benchmarks/against_llama_perplexity.py --build DIR/build/bin choices --items many.jsonl --rounds 2 MODEL.gguf

Both see the same windows of 512 tokens, of which the second half is scored. llama-perplexity keeps the reference's distributions in 16 bits,
suffice in 32. For the choices, prompts and choices are those of the items, asked without a template, summed log-probabilities divided
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
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.loaders.items import load_items
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_client import find_text_engine
from suffice.measure.engine.text_distance import measure_distances, perplexity_windows
from suffice.measure.prompting import Prompting
from suffice.model.answers import ChoiceLogprob
from suffice.model.items import ChoiceLength
from suffice.model.scoring import choice_score
from suffice.quality.distance import DocumentDistances
from suffice.stats.documents import document_mean, perplexity

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.model.items import Item

WINDOW: Final = 512
NUMBER: Final = r"\s*:\s*([0-9.e+-]+)"


def run_theirs(build: Path, threads: int, *arguments: object) -> str:
    """What llama-perplexity prints."""
    command = [str(build / "llama-perplexity"), "-t", str(threads), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace")
    return done.stdout + done.stderr


def settings(threads: int, *, slots: int = 1) -> EngineSettings:
    """The same window, batch and threads."""
    return EngineSettings(
        n_ctx=WINDOW, n_threads=threads, n_threads_batch=threads, n_batch=WINDOW, n_ubatch=WINDOW, n_sequences=slots
    )


def distances(build: Path, threads: int, text: Path, windows: int, models: list[Path]) -> DocumentDistances:
    """Our own figures over the first windows of a text; one model is compared with itself."""
    engine = find_text_engine(next(build.glob("libllama.*")))
    found = DocumentDistances()
    with (
        engine.open_text(models[0], settings(threads)) as reference,
        engine.open_text(models[-1], settings(threads)) as candidate,
    ):
        words = text.read_text(encoding="utf-8").removesuffix("\n")
        tokens = reference.tokenize(words, add_special=True, parse_special=False)[: windows * WINDOW]
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
    common = ("-c", WINDOW, "-b", WINDOW, "--chunks", arguments.windows, "-f", arguments.text)
    printed = run_theirs(arguments.build, arguments.threads, "-m", arguments.models[0], *common)
    found = re.search(r"Final estimate: PPL = ([0-9.]+)", printed)
    if found is None:
        raise SystemExit(printed[-2000:])
    ours = distances(arguments.build, arguments.threads, arguments.text, arguments.windows, arguments.models)
    show([("perplexity", float(found[1]), perplexity(ours.reference_losses()).value)])
    print(f"largest divergence of the model from itself: {max(values.max() for values in ours.divergences())}")


def compare_divergence(arguments: argparse.Namespace) -> None:
    """Two models."""
    reference, candidate = arguments.models
    common = ("-c", WINDOW, "-b", WINDOW, "--chunks", arguments.windows)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        run_theirs(
            arguments.build, arguments.threads, "-m", reference, *common, "-f", arguments.text,
            "--kl-divergence-base", base,
        )  # fmt: skip
        printed = run_theirs(
            arguments.build, arguments.threads, "-m", candidate, *common, "--kl-divergence",
            "--kl-divergence-base", base,
        )  # fmt: skip
    found = distances(arguments.build, arguments.threads, arguments.text, arguments.windows, arguments.models)
    (values,) = found.divergences()
    ours = {
        "Mean    KLD": document_mean(found.divergence_totals()).value,
        "Maximum KLD": float(values.max()),
        "99.0%   KLD": float(np.quantile(values, 0.99)),
        "Mean PPL(Q)": perplexity(found.candidate_losses()).value,
        "Mean PPL(base)": perplexity(found.reference_losses()).value,
        "Same top p": 100 * document_mean(found.same_top_totals()).value,
    }
    show([(name, _number(printed, name), value) for name, value in ours.items()])


def _number(printed: str, name: str) -> float:
    found = re.search(re.escape(name) + NUMBER, printed)
    return float(found[1]) if found else math.nan


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
        kind.set_defaults(function=function)
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
