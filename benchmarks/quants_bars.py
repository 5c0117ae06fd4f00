"""What `suffice quants` says of a model against itself and against a 2-bit remake, on many items and on thirty.

    python -m benchmarks.quants_bars model-f16.gguf --out FOLDER [--threads 1]

The items: which of four ways a sentence of Python's language reference goes on (text_items.py), a letter's sender or order as JSON, and numbers
(make_items.py), asked through the model's own chat template. Thirty are the first ten of each kind.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.make_items import made

HERE = Path(__file__).parent
CHOICES = 400
OF_EACH = 150  # of JSON and of numbers
SEED = 7
TEN = 10


def compared(asked: argparse.Namespace, items: Path, name: str) -> dict[str, Any]:
    """The JSON document of one comparison."""
    words = ["quants", str(asked.model), str(asked.model), "--make", asked.make, "--items", str(items), "--no-speed"]
    words += ["--out", str(asked.out / name), "--resume", "--json", "--text-tokens", str(asked.text_tokens)]
    words += [] if asked.threads is None else ["--threads", str(asked.threads)]
    done = subprocess.run([sys.executable, "-m", "suffice", *words], stdout=subprocess.PIPE, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def write_items(folder: Path) -> tuple[Path, Path]:
    """All items, and ten of each kind."""
    prose = folder / "prose.jsonl"
    words = ["--choices", str(CHOICES), "--words", "0", "--out", str(prose)]
    subprocess.run([sys.executable, str(HERE / "text_items.py"), *words], check=True)
    choices = [json.loads(line) for line in prose.read_text(encoding="utf-8").splitlines()]
    numbers = made("number", OF_EACH, SEED)
    for row in numbers:
        row["messages"] = [{"role": "user", "content": row.pop("prompt")}]
    kinds = [choices, made("json", OF_EACH, SEED), numbers]
    many, thirty = folder / "many.jsonl", folder / "thirty.jsonl"
    for path, rows in ((many, kinds), (thirty, [kind[:TEN] for kind in kinds])):
        path.write_text("".join(json.dumps(row) + "\n" for kind in rows for row in kind), encoding="utf-8")
    return many, thirty


def show(title: str, document: dict[str, Any]) -> None:
    """A row for each candidate, and one for each kind of items."""
    print(f"\n{title}: {document['items']['count']} items\n")
    print("| candidate | kind | reference | candidate | difference, points | 95 % | p, corrected | says |")
    print("|---|---|---|---|---|---|---|---|")
    for one in document["candidates"]:
        rows = [("all", one, one["finding"]), *((kind["kind"], kind, kind["direction"]) for kind in one["kinds"])]
        for kind, row, said in rows:
            names = ("reference_mean_of_pairs", "candidate_mean_of_pairs", "difference")
            cells = [f"{100 * row[name]:.1f}" for name in names]
            ends = "none" if row["low"] is None else f"{100 * row['low']:+.1f} to {100 * row['high']:+.1f}"
            p_value = row["p_holm"]
            told = "" if p_value is None else f"{p_value:.2g}"
            print(f"| {one['name']} | {kind} | {' | '.join(cells)} | {ends} | {told} | {said} |")
        print(f"\n{one['sentence']}\n")


def main() -> None:
    """Make the items, compare, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--make", default="q2_k")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--text-tokens", type=int, default=4096)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    many, few = write_items(asked.out)
    show("Many", compared(asked, many, "many"))
    show("Thirty", compared(asked, few, "thirty"))


if __name__ == "__main__":
    main()
