"""Make items from any prose: which of four ways a sentence goes on, and which word comes last.

A model knows the language or does not, nobody has to label anything, and a quantization that hurts it is seen. Without a text, the
prose is that of Python's own language reference, which comes with every Python.

    python benchmarks/text_items.py --choices 700 --words 500 --out prose.jsonl
    python benchmarks/text_items.py --out ours.jsonl docs/*.md
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

SEED = 20261130
LEAST_WORDS, MOST_WORDS = 12, 45  # of a sentence
REST_WORDS = 6  # of a way to go on
CONTEXT_SENTENCES = 3  # before the one whose last word is asked for
WORD = re.compile(r"[A-Za-z][a-z]{3,}$")


def sentences(text: str) -> list[str]:
    """The sentences of prose: without code, tables, headings, links and marks."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = ["" if line.lstrip().startswith(("|", "#", "<", "    ")) else line for line in text.splitlines()]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r"\s+", " ", re.sub(r"[`*_]|^\s*(?:[-*]|\d+\.)\s", "", paragraph)).strip()
        found += [one.strip() for one in re.split(r"(?<=[.!?])\s+(?=[A-Z])", plain)]
    return [one for one in found if LEAST_WORDS <= len(one.split()) <= MOST_WORDS and one.endswith(".")]


def choice_rows(found: list[str], count: int, rng: random.Random) -> list[dict[str, Any]]:
    """How does the sentence go on? The true rest among three of others, all of the same number of words."""
    parts = [
        (words[:cut], words[cut : cut + REST_WORDS])
        for one in found
        if (words := one.split()) and (cut := len(words) // 2)
    ]
    rests = [" ".join(rest) for _, rest in parts]
    rows: list[dict[str, Any]] = []
    for number, (start, _) in enumerate(parts[:count]):
        others = rng.sample([rest for rest in dict.fromkeys(rests) if rest != rests[number]], 3)
        choices = [rests[number], *others]
        rng.shuffle(choices)
        row = {"prompt": " ".join(start), "choices": choices, "answer": rests[number], "score": "multiple_choice"}
        rows.append({"id": f"goes-on-{number + 1:04}", **row})
    return rows


def word_rows(found: list[str], count: int) -> list[dict[str, Any]]:
    """Which word comes last, behind the sentences before it?"""
    rows: list[dict[str, Any]] = []
    for place in range(CONTEXT_SENTENCES, len(found)):
        words = found[place].removesuffix(".").split()
        if not WORD.fullmatch(words[-1]) or len(rows) >= count:
            continue
        context = " ".join([*found[place - CONTEXT_SENTENCES : place], *words[:-1]])
        score = {"kind": "regex", "pattern": r"^\W*([A-Za-z]+)", "ignore_case": True}
        row = {"prompt": context, "answer": words[-1], "score": score, "max_tokens": 5}
        rows.append({"id": f"last-word-{len(rows) + 1:04}", **row})
    return rows


def main() -> None:
    """Write the items."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="*", help="prose in UTF-8; none: Python's language reference")
    parser.add_argument("--choices", type=int, default=700)
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    rng = random.Random(SEED)  # noqa: S311  # no secret is made of it
    texts = [path.read_text(encoding="utf-8") for path in asked.texts] or list(topics.values())
    found = list(dict.fromkeys(one for text in texts for one in sentences(text)))
    rows = choice_rows(found, asked.choices, rng) + word_rows(found, asked.words)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    asked.out.write_text(text, encoding="utf-8", newline="\n")
    print(f"{asked.out}: {len(rows)} items from {len(found)} sentences")


if __name__ == "__main__":
    main()
