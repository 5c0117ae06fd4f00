"""Whether a run keeps its limits, counted while it goes on: it need not go on once that is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.serving.summary import least_samples, rank_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.serving.load import DrawnLoad
    from suffice.serving.run import Recorder
    from suffice.serving.search import LatencyLimit
    from suffice.serving.summary import Window


class Misses:
    """How many misses the limits of a run have left, and how many requests must still keep them.

    Of n attempts the percentile p allows ``n - ceil(n p)`` misses, and more of more attempts. So what all requests that count would allow is
    never less than what the attempts among them do, and one miss beyond it breaks the limit, whatever becomes of the other requests. Where all
    of them are attempts, ``ceil(n p)`` that kept it keep the limit.

    Attributes:
        kept: whether the limits are kept; None: that is not certain yet.
    """

    __slots__ = ("_end", "_left", "_limits", "_needed", "_start", "kept")

    def __init__(self, limits: Sequence[LatencyLimit], window: Window, drawn: DrawnLoad, request_tokens: int) -> None:
        self.kept: bool | None = None
        places = window.places(len(drawn.prompts))
        self._start, self._end = places.start, places.stop
        count = self._end - self._start
        # Too few attempts neither keep a limit nor break it; an answer of one token is no attempt at a time per token.
        longer = count if all(limit.metric != "tpot_s" for limit in limits) else _longer(drawn, places, request_tokens)
        attempts = [longer if limit.metric == "tpot_s" else count for limit in limits]
        judged = [limit for limit, least in zip(limits, attempts, strict=True) if least >= least_samples(limit.percent)]
        ranks = [rank_of(count, limit.percent) for limit in judged]
        self._limits = [(index, limit.metric, limit.seconds) for index, limit in enumerate(judged)]
        self._left = [count - rank for rank in ranks]
        all_are_attempts = len(judged) == len(limits) and min(attempts, default=count) == count
        self._needed: list[int] | None = ranks if ranks and all_are_attempts else None

    def goes_on(self) -> None:
        """The run is wanted to its end where it keeps the limits."""
        self._needed = None

    def ended(self, number: int, recorder: Recorder) -> None:
        """A request has its last token, or failed: then it has no time of an end, and misses every limit."""
        if self._start <= number < self._end:
            self._count(number, recorder)

    def _count(self, number: int, recorder: Recorder) -> None:
        """Of a request that limits are for."""
        finish_s, needed = recorder.finish_s[number], self._needed
        for index, metric, seconds in self._limits:
            if metric == "ttft_s":
                taken_s = recorder.first_token_s[number] - recorder.arrival_s[number]
            elif metric == "e2e_s":
                taken_s = finish_s - recorder.arrival_s[number]
            else:
                later = recorder.output_tokens[number] - 1
                taken_s = (finish_s - recorder.first_token_s[number]) / later if later > 0 else 0.0
            if taken_s <= seconds and finish_s == finish_s:  # noqa: PLR0124  # not NaN
                if needed is not None:
                    needed[index] -= 1
                continue
            self._left[index] -= 1
            if self._left[index] < 0:
                self.kept = False
                return
        if needed is not None and max(needed) <= 0:
            self.kept = True


def _longer(drawn: DrawnLoad, places: slice, request_tokens: int) -> int:
    """Requests whose answer has more than one token."""
    outputs, prompts = drawn.outputs[places], drawn.prompts[places]
    single, cut = outputs.count(1), sum(map((request_tokens - 1).__le__, prompts))
    if not single or not cut:
        return len(outputs) - single - cut
    return sum(min(output, request_tokens - prompt) > 1 for output, prompt in zip(outputs, prompts, strict=True))
