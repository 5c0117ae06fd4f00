"""Score functions of the user's, named as ``module:function``: they run in a process of their own, and are never trusted to end.

An items file that names a function makes suffice run the code of that module, with the rights of whoever runs suffice. In a process of
its own it can neither write into our output, nor end us, nor keep us for ever.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError, UsageError
from suffice.loaders.answer_fields import whole_text
from suffice.loaders.function_child import call
from suffice.loaders.line_child import ChildEndedError, ChildTimeoutError, LineChild
from suffice.model.scoring import Score, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from suffice.model.items import Item

    ScoreFunction = Callable[[str, dict[str, Any]], object]

FUNCTION_LIMIT_S: Final = 60.0
"""How long a function may take for one answer."""
_IMPORT_LIMIT_S: Final = 300.0  # some modules load a model of their own
_MOST_LOST: Final = 5  # processes in a row


class FunctionFailedError(EngineError):
    """A function gave no score; the message goes on behind its name."""


def load_functions(
    items: Iterable[Item], *, folder: Path, limit_s: float = FUNCTION_LIMIT_S
) -> dict[str, ScoreFunction]:
    """The functions that items name, by their names, each tried for whether it is there. All share one process.

    Args:
        items: of an items file.
        folder: where their modules are looked for first.
        limit_s: how long a function may take for one answer.

    Raises:
        UsageError: a module cannot be imported, or has no such function; the message says why.
    """
    names = dict.fromkeys(item.rule.function for item in items if item.rule.function is not None)
    host = FunctionHost(folder)
    functions: dict[str, ScoreFunction] = {name: ChildFunction(name, host, limit_s) for name in names if name}
    try:
        for name in functions:
            host.check(name)
    finally:
        host.close()  # what the modules have loaded is not wanted while models are asked
    return functions


class FunctionHost:
    """The process that functions run in; it starts when it is needed, and again after it was lost or closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: LineChild | None = None
        self._imported: set[str] = set()

    def check(self, name: str) -> None:
        """Import a function.

        Raises:
            UsageError: that fails.
        """
        module, _, function = name.partition(":")
        try:
            self._import(name)
        except EngineError as error:
            raise UsageError(
                f"the score function {name} cannot be used: importing {module} (looked for in {self._folder} first) failed: {error}"
            ) from None
        except LookupError:
            raise UsageError(f"the score function {name} cannot be used: {module} has no function {function}") from None

    def call(self, name: str, text: str, item: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """What :func:`suffice.loaders.function_child.call` gives.

        Raises:
            FunctionFailedError: the process cannot import it any more.
            ChildTimeoutError, ChildEndedError: see :meth:`LineChild.ask`.
        """
        try:
            self._import(name)
        except (EngineError, LookupError) as error:
            raise FunctionFailedError(f"could not be imported again: {error}") from None
        return self._ask(name, {"text": text, "item": item}, limit_s)

    def _import(self, name: str) -> None:
        """Start the child where there is none, and import a function where it has not yet.

        Raises:
            EngineError: that failed.
            LookupError: the module has no such function.
        """
        if self._child is None or not self._child.is_running:
            self.close()
            self._child = LineChild("suffice.loaders.function_child", str(self._folder.resolve()), shows_errors=True)
        if name in self._imported:
            return
        try:
            answer = self._ask(name, {}, _IMPORT_LIMIT_S)
        except ChildEndedError as error:
            raise EngineError(f"it ended the process that imported it: {error}") from None
        if "not_imported" in answer:
            raise EngineError(whole_text(str(answer["not_imported"])))
        if "missing" in answer:
            raise LookupError(f"there is no {name} any more")
        self._imported.add(name)

    def _ask(self, name: str, question: dict[str, Any], limit_s: float) -> dict[str, Any]:
        assert self._child is not None  # noqa: S101  # whoever calls has started it
        module, _, function = name.partition(":")
        return self._child.ask({"module": module, "function": function, "limit_s": limit_s} | question, limit_s)

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        self._imported.clear()
        if child is not None:
            child.close()


class ChildFunction:
    """A function of the user's that is called in the process of a host. Close it after use; it can be used again."""

    def __init__(self, name: str, host: FunctionHost, limit_s: float = FUNCTION_LIMIT_S) -> None:
        self.name = name
        self._host = host
        self._limit_s = limit_s
        self._lost = 0  # processes, in a row

    def __call__(self, text: str, item: dict[str, Any]) -> float:
        """The function's score of an answer.

        Raises:
            FunctionFailedError: there is none.
        """
        if self._lost >= _MOST_LOST:
            raise FunctionFailedError(f"is not called any more: its process was lost on {self._lost} answers in a row")
        self._lost += 1
        try:
            answer = self._host.call(self.name, text, item, self._limit_s)
        except ChildTimeoutError:
            raise FunctionFailedError(f"took longer than {self._limit_s:g} s, and was stopped") from None
        except ChildEndedError as error:
            raise FunctionFailedError(f"ended the process that it ran in: {error}") from None
        self._lost = 0
        if "value" in answer:
            return float(answer["value"])
        raise FunctionFailedError(whole_text(str(answer.get("problem"))))

    def close(self) -> None:
        """End the process that it shares with others."""
        self._host.close()


def close_functions(functions: Mapping[str, ScoreFunction]) -> None:
    """End the processes of functions; they start again when one is called."""
    for function in functions.values():
        if isinstance(function, ChildFunction):
            function.close()


def function_score(functions: Mapping[str, ScoreFunction], item: Item, text: str) -> Score:
    """The score that the item's function gives: it is called with the text and a dict of the item's fields.

    It has to return True, False or a number from 0 to 1. Whatever else it does leaves the item without a score, and says so.
    """
    function = functions.get(item.rule.function or "")
    if function is None:
        return unknown(f"item {item.id}: the function {item.rule.function} was not loaded")
    if not isinstance(function, ChildFunction):  # the caller's own
        answer = call(function, text, _as_dict(item), goes_through=(KeyboardInterrupt,))
    else:
        try:
            answer = {"value": function(text, _as_dict(item))}
        except FunctionFailedError as error:
            answer = {"problem": str(error)}
    if "value" in answer:
        return Score(value=answer["value"])
    return unknown(f"item {item.id}: {item.rule.function} {answer['problem']}")


def _as_dict(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "prompt": item.prompt,
        "messages": [{"role": message.role.value, "content": message.content} for message in item.messages],
        "answer": None if item.answer_json is None else json.loads(item.answer_json),
        "choices": list(item.choices),
        "group": item.group,
    }
