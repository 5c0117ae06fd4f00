"""The three functions of the article that the project grew from, to the letter: names, signatures, results and words.

They are what its readers paste. The richer API judges with intervals, basis and more than one constraint
(:mod:`suffice.decide`); these three judge two plain numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

from suffice.decide.words import CPU, CPU_THIN, GPU


def decode_ceiling(bandwidth_gb_s: float, weights_gb: float) -> float:
    """Most tokens per second that one stream can decode: bytes per second divided by bytes per token.

    >>> round(decode_ceiling(40, 3.5), 3)
    11.429
    """
    return bandwidth_gb_s / weights_gb


def choose_hardware(required_tokens_s: float, measured_cpu: float, margin: float = 1.5) -> str:
    """The verdict on two numbers: required and measured tokens per second.

    >>> choose_hardware(8, 14)
    'cpu'
    >>> choose_hardware(9, 8)
    'gpu'
    """
    needed = required_tokens_s * margin
    if measured_cpu >= needed:
        return CPU
    if measured_cpu >= required_tokens_s:
        return CPU_THIN
    return GPU


def assert_decode_ceiling(path: str, floor: float) -> None:
    """Assert that the record at ``path`` decodes at ``floor`` tokens per second or more.

    Raises:
        AssertionError: it does not, in the words of the article.
    """
    result = json.loads(Path(path).read_text(encoding="utf-8"))
    measured = result["decode_tokens_per_second"]
    if measured is None:
        raise AssertionError(f"decode fell below {floor}: it was not measured")
    if not measured >= floor:
        raise AssertionError(f"decode fell below {floor}: {measured:.1f}")
