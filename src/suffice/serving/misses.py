"""Requests that miss a limit, counted while a run goes on: it need not go on once it cannot keep the limit any more."""

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
    """How many misses the limits of a run have left.

    Of n attempts the percentile p allows ``n - ceil(n p)`` misses, and more of more attempts. So what all requests that count would allow is
    never less than what the attempts among them do, and one miss beyond it breaks the limit, whatever becomes of the other requests.

    Attributes:
        is_lost: a limit cannot be kept any more.
    """

    __slots__ = ("_end", "_left", "_limits", "_start", "is_lost")

    def __init__(self, limits: Sequence[LatencyLimit], window: Window, drawn: DrawnLoad, request_tokens: int) -> None:
        self.is_lost = False
        places = window.places(len(drawn.prompts))
        self._start, self._end = places.start, places.stop
        count = self._end - self._start
        # Too few attempts neither keep a limit nor break it; an answer of one token is no attempt at a time per token.
        lengths = zip(drawn.outputs[places], drawn.prompts[places], strict=True)
        longer = sum(min(output, request_tokens - prompt) > 1 for output, prompt in lengths)
        attempts = {"tpot_s": longer}
        self._limits = [limit for limit in limits if attempts.get(limit.metric, count) >= least_samples(limit.percent)]
        self._left = [count - rank_of(count, limit.percent) for limit in self._limits]

    def ended(self, number: int, recorder: Recorder) -> None:
        """A request has its last token, or failed: then it has no time of an end, and misses every limit."""
        self._ended(number, number, recorder)

    def _ended(self, place: int, number: int, recorder: Recorder) -> None:
        """The same of a request that is the ``place``-th of those that limits are for."""
        if not self._start <= place < self._end:
            return
        finish_s = recorder.finish_s[number]
        for index, limit in enumerate(self._limits):
            if not self._keeps(limit, number, recorder, finish_s):
                self._left[index] -= 1
                self.is_lost |= self._left[index] < 0

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
