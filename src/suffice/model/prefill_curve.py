"""Seconds to read a prompt of any length, from the measured seconds of the chunks of one prompt.

A chunk costs a fixed share for the weights and a share that grows with the number of tokens before it (attention). So the
time per token is close to a line in the depth, and a prompt longer than the measured one is a sum along that line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Beyond so many times the measured prompt, the line through its chunks is no evidence any more.
MAX_EXTRAPOLATION: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCurve:
    """Chunks of a measured prompt in order: tokens and median seconds of each."""

    chunk_tokens: tuple[int, ...]
    chunk_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.chunk_tokens) != len(self.chunk_s) or not self.chunk_tokens:
            raise ValueError("a prefill curve needs one time per chunk, and at least one chunk")
        if min(self.chunk_tokens) <= 0 or min(self.chunk_s) <= 0:
            raise ValueError("chunks have positive sizes and times")

    @property
    def measured_tokens(self) -> int:
        """Tokens of the prompt that was measured."""
        return sum(self.chunk_tokens)

    @property
    def has_slope(self) -> bool:
        """Whether the growth with depth was seen, that is, whether there is more than one chunk."""
        return len(self.chunk_tokens) > 1

    def seconds(self, n_tokens: float) -> float:
        """Seconds for the first ``n_tokens``: measured chunks first, then along the line. At 0 tokens, 0.

        Part of a chunk costs its share of the tokens. That is the least it can cost: the weights are read once per chunk,
        however few its tokens are, so :meth:`seconds_at_most` counts it whole.
        """
        return self._seconds(n_tokens, whole_chunks=False)

    def seconds_at_most(self, n_tokens: float) -> float:
        """As :meth:`seconds`, with a chunk that the prompt only begins counted whole."""
        return self._seconds(n_tokens, whole_chunks=True)

    def _seconds(self, n_tokens: float, *, whole_chunks: bool) -> float:
        remaining = n_tokens
        total_s = 0.0
        for tokens, seconds in zip(self.chunk_tokens, self.chunk_s, strict=True):
            if remaining <= 0:
                return total_s
            total_s += seconds * (1.0 if whole_chunks else min(1.0, remaining / tokens))
            remaining -= tokens
        if remaining <= 0:
            return total_s
        start = float(self.measured_tokens)
        first_s, slope_s = self._line()
        middle = start + remaining / 2
        return total_s + remaining * max(first_s + slope_s * middle, min(self._per_token()))

    def supports(self, n_tokens: float) -> bool:
        """Whether a prompt of this length is measured, or near enough to be extrapolated."""
        if n_tokens <= self.measured_tokens:
            return True
        return self.has_slope and n_tokens <= MAX_EXTRAPOLATION * self.measured_tokens

    def _per_token(self) -> list[float]:
        return [seconds / tokens for tokens, seconds in zip(self.chunk_tokens, self.chunk_s, strict=True)]

    def _line(self) -> tuple[float, float]:
        """Least squares of seconds per token against the depth at the middle of each chunk: (at depth 0, slope >= 0)."""
        per_token = self._per_token()
        if len(per_token) == 1:
            return per_token[0], 0.0
        middles = []
        depth = 0
        for tokens in self.chunk_tokens:
            middles.append(depth + tokens / 2)
            depth += tokens
        mean_x = sum(middles) / len(middles)
        mean_y = sum(per_token) / len(per_token)
        spread = sum((x - mean_x) ** 2 for x in middles)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(middles, per_token, strict=True)) / spread
        slope = max(slope, 0.0)  # attention only grows; a falling line is noise
        return mean_y - slope * mean_x, slope
