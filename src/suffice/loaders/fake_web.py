"""A web for tests and demonstrations: what each address answers is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.loaders.web import WebError

if TYPE_CHECKING:
    from collections.abc import Mapping


class FakeWeb:
    """Answers with texts, or raises errors.

    Args:
        answers: address -> text, or the error to raise. An address that is not in it answers that there is no such file.
    """

    def __init__(self, answers: Mapping[str, str | WebError]) -> None:
        self._answers = answers
        self.asked: list[str] = []  # addresses, in order

    def get(self, url: str, *, limit_bytes: int) -> str:
        self.asked.append(url)
        answer = self._answers.get(url, WebError("the server answers with status 404"))
        if isinstance(answer, WebError):
            raise answer
        if len(answer.encode()) > limit_bytes:
            raise WebError(f"it has more than the {limit_bytes} bytes that such a file may have")
        return answer
