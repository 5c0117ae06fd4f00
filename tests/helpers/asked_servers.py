"""Servers that are asked items: a few items, and answers in the form of the interface."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.load import mock_script as script
from suffice.model.items import Item, Message, Role, ScoreKind, ScoreRule
from suffice.quants.respondent import AskOptions
from suffice.quants.server import ServerRespondent, server_endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest, MockServer
    from suffice.model.answers import Answer as Given

OPTIONS = AskOptions(slots=2, max_tokens=8, timeout_s=20)
FIRST_LOOK = "Hi"


def item(name: str, **fields: object) -> Item:
    """An item; what is not given does not matter."""
    rule = ScoreRule(kind=ScoreKind.MULTIPLE_CHOICE if "choices" in fields else ScoreKind.EXACT)
    return Item(**{"id": name, "line": 1, "rule": rule, **fields})  # type: ignore[arg-type]


PROMPT = item("prompt", prompt="The capital of Italy:", answers=("Rome",), stop=("\n",))
CHAT = item(
    "chat", messages=(Message(role=Role.USER, content="The capital of Italy?"),), answers=("Rome",), max_tokens=3
)
SKY = item("sky", prompt="The sky is", choices=("red", "blue"), correct=(1,))


def plain(document: object, status: int = 200) -> Answer:
    """An answer in one piece, as servers give it that are not asked to stream."""
    answer = script.at_once(json.dumps(document).encode(), content_type="application/json")
    return replace(answer, status=status)


def said(request: MockRequest, text: str, **more: object) -> Answer:
    """A text in the form of the interface that was asked."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    is_chat = "chat" in request.path
    content = {"message": {"role": "assistant", "content": text, **more}} if is_chat else {"text": text, **more}
    return plain({"choices": [{"index": 0, "finish_reason": "stop", **content}], "usage": usage})


def is_first_look(request: MockRequest) -> bool:
    """Whether it is the small request before the items."""
    return (
        request.body.get("prompt") == FIRST_LOOK or request.body.get("messages", [{}])[0].get("content") == FIRST_LOOK
    )


def asked(
    server: MockServer, items: Sequence[Item], options: AskOptions = OPTIONS
) -> tuple[dict[str, Given], ServerRespondent]:
    """The answers by the item's id, and who gave them; further tries come at once."""
    endpoint, _ = server_endpoint(server.url)
    with ServerRespondent(endpoint, items, options, pauses_s=(0, 0)) as respondent:
        return {answer.item_id: answer for answer in respondent.ask(items)}, respondent
