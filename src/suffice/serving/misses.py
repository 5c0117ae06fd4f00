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
        lengths = zip(drawn.outputs[places], drawn.prompts[places], strict=True)
        longer = sum(min(output, request_tokens - prompt) > 1 for output, prompt in lengths)
        attempts = [longer if limit.metric == "tpot_s" else count for limit in limits]
        known = list(zip(limits, attempts, strict=True))
        self._limits = [limit for limit, least in known if least >= least_samples(limit.percent)]
        ranks = [rank_of(count, limit.percent) for limit in self._limits]
        self._left = [count - rank for rank in ranks]
        all_are_attempts = len(self._limits) == len(limits) and min(attempts, default=count) == count
        self._needed: list[int] | None = ranks if ranks and all_are_attempts else None

    def goes_on(self) -> None:
        """The run is wanted to its end where it keeps the limits."""
        self._needed = None

    def ended(self, number: int, recorder: Recorder) -> None:
        """A request has its last token, or failed: then it has no time of an end, and misses every limit."""
        self._ended(number, number, recorder)

    def _ended(self, place: int, number: int, recorder: Recorder) -> None:
        """The same of a request that is the ``place``-th of those that limits are for."""
        if not self._start <= place < self._end:
            return
        finish_s, needed = recorder.finish_s[number], self._needed
        for index, limit in enumerate(self._limits):
            if not self._keeps(limit, number, recorder, finish_s):
                self._left[index] -= 1
                if self._left[index] < 0:
                    self.kept = False
                    return
            elif needed is not None:
                needed[index] -= 1
        if needed is not None and max(needed) <= 0:
            self.kept = True

    @staticmethod
    def _keeps(limit: LatencyLimit, number: int, recorder: Recorder, finish_s: float) -> bool:
        if finish_s != finish_s:  # noqa: PLR0124  # NaN
            return False
        if limit.metric == "ttft_s":
            return recorder.first_token_s[number] - recorder.arrival_s[number] <= limit.seconds
        if limit.metric == "e2e_s":
            return finish_s - recorder.arrival_s[number] <= limit.seconds
        later = recorder.output_tokens[number] - 1
        return later < 1 or (finish_s - recorder.first_token_s[number]) / later <= limit.seconds
