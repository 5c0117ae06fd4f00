"""The child of :mod:`suffice.loaders.item_functions`: runs score functions of the user's until its input ends, or until it is killed.

Whatever they print goes to stderr, what they read is empty: the pipes of this process are not theirs. What they return is made a plain
number here, so that nothing of theirs runs in the process that asked.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

SHOWN_CHARACTERS: Final = 60
_MOST_CHARACTERS: Final = 500  # of what a function raised
_MERCY_S: Final = 30.0  # after the limit, where whoever asked has gone and kills nobody any more


def main() -> None:
    """One JSON line in, one out: ``module`` and ``function`` alone give ``found``; with ``text`` and ``item`` a ``value``, or why not."""
    questions, answers = _own_pipes()
    sys.path.insert(0, sys.argv[1])
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  # os.devnull is no file that has a path of its own
        for line in questions:
            asked = json.loads(line)
            faulthandler.dump_traceback_later(asked["limit_s"] + _MERCY_S, exit=True, file=nowhere)
            answer = _answer(asked)
            faulthandler.cancel_dump_traceback_later()
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _own_pipes() -> tuple[IO[str], IO[str]]:
    """Our input and output under other numbers; in their places, nothing to read, and stderr to write to."""
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return questions, answers


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    with Caught() as caught:
        module = importlib.import_module(asked["module"])
    if caught.error is not None:
        return {"not_imported": caught.sentence}
    with Caught() as caught:
        function = getattr(module, asked["function"], None)
    if not callable(function):
        return {"missing": True}
    if "text" not in asked:
        return {"found": True}
    return call(function, asked["text"], asked["item"])


def call(
    function: Callable[[str, dict[str, Any]], object],
    text: str,
    item: dict[str, Any],
    goes_through: tuple[type[BaseException], ...] = (),
) -> dict[str, Any]:
    """What a function makes of an answer: ``value``, a score from 0 to 1, or ``problem``, why there is none.

    A number of NumPy's is a number. What ``goes_through`` is raised.
    """
    with Caught(goes_through) as caught:
        value = _score(function(text, item))
    return {"problem": f"raised {caught.sentence}"} if caught.error is not None else value


def _score(result: object) -> dict[str, Any]:
    own = getattr(result, "item", None)
    plain = own() if callable(own) and not isinstance(result, bool | int | float) else result
    if isinstance(plain, bool | int | float) and 0 <= plain <= 1:
        return {"value": float(plain)}
    return {"problem": f"returned {_shown(result)}, not True, False or a number from 0 to 1"}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


class Caught:
    """Keeps what foreign code raised, to be reported, whatever it is."""

    def __init__(self, goes_through: tuple[type[BaseException], ...] = ()) -> None:
        self.error: BaseException | None = None
        self._goes_through = goes_through

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return error is not None and not isinstance(error, self._goes_through)

    @property
    def sentence(self) -> str:
        """Its kind, and what it says, where it can say something."""
        name = type(self.error).__name__
        with Caught() as caught:
            said = str(self.error)[:_MOST_CHARACTERS]
        if caught.error is not None:
            return f"{name} (whose message cannot be read)"
        return f"{name}: {said}" if said else name


if __name__ == "__main__":
    main()
