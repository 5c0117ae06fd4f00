"""Score functions of the user's, named as ``module:function``: imported when asked for, and never trusted to return what they should.

An items file that names a function makes suffice run the code of that module, with the rights of whoever runs suffice.
"""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from suffice.errors import UsageError
from suffice.loaders.strict_json import shown
from suffice.model.scoring import Score, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from suffice.model.items import Item

    ScoreFunction = Callable[[str, dict[str, Any]], object]


def load_functions(items: Iterable[Item], *, folder: Path) -> dict[str, ScoreFunction]:
    """The functions that items name, by their names. ``folder`` is where their modules are looked for first.

    Raises:
        UsageError: a module cannot be imported, or has no such function.
    """
    names = dict.fromkeys(item.rule.function for item in items if item.rule.function is not None)
    return {name: load_function(name, folder=folder) for name in names if name}


def load_function(name: str, *, folder: Path) -> ScoreFunction:
    """The function ``module:function``; the module is imported, from ``folder`` or from where Python finds it.

    Raises:
        UsageError: the module cannot be imported, or has no such function; the message says why.
    """
    module_name, _, function_name = name.partition(":")
    with _first_on_path(folder), _Caught() as caught:
        module = importlib.import_module(module_name)
    if caught.error is not None:
        raise UsageError(
            f"the score function {name} cannot be used: importing {module_name} (looked for in {folder} first) failed: "
            f"{caught.sentence}"
        ) from caught.error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"the score function {name} cannot be used: {module_name} has no function {function_name}")
    return function  # type: ignore[no-any-return]


def function_score(functions: Mapping[str, ScoreFunction], item: Item, text: str) -> Score:
    """The score that the item's function gives: it is called with the text and a dict of the item's fields.

    It has to return True, False or a number from 0 to 1. Whatever else it does leaves the item without a score, and says so.
    """
    function = functions.get(item.rule.function or "")
    if function is None:
        return unknown(f"item {item.id}: the function {item.rule.function} was not loaded")
    with _Caught() as caught:
        result = function(text, _as_dict(item))
    if caught.error is not None:
        return unknown(f"item {item.id}: {item.rule.function} raised {caught.sentence}")
    if not isinstance(result, bool | int | float) or not 0 <= result <= 1:
        return unknown(
            f"item {item.id}: {item.rule.function} returned {shown(result)}, not True, False or a number from 0 to 1"
        )
    return Score(value=float(result))


def _as_dict(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "prompt": item.prompt,
        "messages": [{"role": message.role.value, "content": message.content} for message in item.messages],
        "answer": None if item.answer_json is None else json.loads(item.answer_json),
        "choices": list(item.choices),
        "group": item.group,
    }


class _Caught:
    """Keeps what foreign code raised, to be reported; Ctrl-C goes through. What is kept is never taken for an answer."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return isinstance(error, Exception | SystemExit)

    @property
    def sentence(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
