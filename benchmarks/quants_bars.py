"""What `suffice quants` says of a model against itself and against a 2-bit remake, on many items and on thirty.

    python benchmarks/quants_bars.py model-f16.gguf --out FOLDER [--threads 1]

The items are those of text_items.py, from Python's language reference: which of four ways a sentence goes on, and which word comes last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def compared(asked: argparse.Namespace, items: Path, name: str) -> dict[str, Any]:
    """The JSON document of one comparison."""
    words = ["quants", str(asked.model), str(asked.model), "--make", asked.make, "--items", str(items), "--no-speed"]
    words += ["--out", str(asked.out / name), "--resume", "--json", "--text-tokens", str(asked.text_tokens)]
    words += [] if asked.threads is None else ["--threads", str(asked.threads)]
    done = subprocess.run([sys.executable, "-m", "suffice", *words], stdout=subprocess.PIPE, text=True, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


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
    many, few = asked.out / "many.jsonl", asked.out / "thirty.jsonl"
    subprocess.run([sys.executable, str(HERE / "text_items.py"), "--out", str(many)], check=True)
    lines = many.read_text(encoding="utf-8").splitlines(keepends=True)
    few.write_text("".join(lines[:15] + lines[-15:]), encoding="utf-8")
    show("Many", compared(asked, many, "many"))
    show("Thirty", compared(asked, few, "thirty"))


if __name__ == "__main__":
    main()
