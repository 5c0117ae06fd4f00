"""Flash attention or not: measured, where it is affordable, instead of taken from a default.

llama.cpp turns flash attention on by itself. On some CPUs its kernel is the slow one when a single token attends to a long cache:
SmolLM2-135M at depth 512 decodes with 48 tokens/s with it and 107 without on the reference VM, and llama-bench says the same
(docs/benchmarks.md). A verdict that rests on the default alone could buy a GPU that nobody needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.measure.engine.seam import Session

PROBE_ROUNDS: Final = 2
PROBE_STEPS: Final = 8
# Behind fewer tokens attention is too small a part of a step to be told from noise.
LEAST_PROBE_DEPTH: Final = 64
# Share of the budget for filling caches, and the same for loading a second time.
PROBE_SHARE: Final = 0.2
# Only a gain beyond the scatter of such a short probe is followed.
WORTHWHILE_GAIN: Final = 1.1
# The key and value caches of these types work without flash attention; quantized values do not.
PLAIN_CACHE_TYPES: Final = ("f16", "f32", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProbe:
    """Decode rate at a depth with flash attention on and off: the faster of two short tries each."""

    depth: int
    on_tokens_per_second: float
    off_tokens_per_second: float

    @property
    def off_is_faster(self) -> bool:
        """Whether turning it off gains more than a short probe may err."""
        return self.off_tokens_per_second > WORTHWHILE_GAIN * self.on_tokens_per_second


def probe_depth(wanted: int, *, budget_s: float, prefill_token_s: float) -> int | None:
    """The depth at which comparing is affordable, up to the wanted one; None when that is too shallow to tell."""
    fillings = 2 * PROBE_ROUNDS
    affordable = int(PROBE_SHARE * budget_s / (fillings * prefill_token_s))
    depth = min(wanted, affordable)
    return depth if depth >= LEAST_PROBE_DEPTH else None


def compare_attention(on: Session, open_off: Callable[[], Session], depth: int) -> tuple[Session, AttentionProbe]:
    """Try both in turns and return the session to go on with; the other one is closed."""
    off = open_off()
    try:
        on_s, off_s = try_both(on, off, depth)
    except BaseException:
        off.close()
        raise
    probe = AttentionProbe(depth=depth, on_tokens_per_second=1 / on_s, off_tokens_per_second=1 / off_s)
    winner, loser = (off, on) if probe.off_is_faster else (on, off)
    loser.close()
    return winner, probe


def try_both(on: Session, off: Session, depth: int) -> tuple[float, float]:
    """Seconds of a decode step at a depth with either: the faster of the short tries, made in turns."""
    seconds: dict[Session, list[float]] = {on: [], off: []}
    for _ in range(PROBE_ROUNDS):
        for session, seen in seconds.items():
            session.prefill(depth)
            seen.append(median(session.decode(PROBE_STEPS)))
    return min(seconds[on]), min(seconds[off])
