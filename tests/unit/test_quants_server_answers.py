"""What counts as an answer of a server: texts in which form, what is none, whose model it is, and no key in any of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from helpers.asked_servers import CHAT, OPTIONS, PROMPT, SKY, asked, is_first_look, plain, said
from suffice.load import mock_script as script
from suffice.load.mock_server import served_in_thread
from suffice.loaders.answers import read_answers
from suffice.model.answers import FinishReason
from suffice.quants import server_look
from suffice.quants.asking import ask_all
from suffice.quants.parties import parties
from suffice.quants.respondent import (
    LISTED_NOTE,
    SERVER_SPEED_NOTE,
    THOUGHT_NOTE,
    AskOptions,
    comparison_notes,
)
from suffice.quants.server import ServerRespondent, server_endpoint
from suffice.quants.server_look import model_name
from suffice.quants.server_names import named_by_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest
    from suffice.model.answers import Answer as Given


def of_message(message: dict[str, Any], *, finish: str = "stop", **more: object) -> Callable[[MockRequest], Answer]:
    """A server that answers every conversation with this message."""
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return lambda request: said(request, "x") if is_first_look(request) else plain({"choices": [choice], **more})


def one_answer(server_of: Callable[[MockRequest], Answer]) -> tuple[Given, ServerRespondent]:
    """The answer of such a server to a conversation."""
    with served_in_thread(server_of) as server:
        found, respondent = asked(server, (CHAT,))
    return found["chat"], respondent


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"content": None}, "the answer has no text: 'content' is null"),
        ({"role": "assistant"}, "the answer has no text: 'content' is null"),
        ({"content": 7}, "the answer has no text: 'content' is 7"),
        ({"content": float("nan")}, "the answer has no text: 'content' is nan"),
        ({"content": {"a": 1}}, "the answer has no text: 'content' is {'a': 1}"),
        ({"content": []}, "the answer has no text: 'content' is a list without a text"),
        ({"content": [{"type": "image_url", "image_url": {}}]}, "the answer has no text: 'content' is a list without"),
        ({"content": None, "tool_calls": [{"function": {"name": "f"}}]}, "called a tool instead of giving an answer"),
    ],
)
def test_an_answer_without_a_text_is_the_items_error(message: dict[str, Any], why: str) -> None:
    """It is no wrong answer: the model said nothing that could be right or wrong."""
    found, _ = one_answer(of_message(message))

    assert found.text is None
    assert why in (found.error or "")


@pytest.mark.parametrize("text", [None, 3, [1]])
def test_a_completion_without_a_text_is_the_items_error(text: object) -> None:
    """The other interface has the text in another place."""
    with served_in_thread(
        lambda request: said(request, "x") if is_first_look(request) else plain({"choices": [{"text": text}]})
    ) as server:
        found, _ = asked(server, (PROMPT,))

    assert "the answer has no text: 'text' is" in (found["prompt"].error or "")


def test_a_server_that_never_has_a_text_is_asked_all_the_same() -> None:
    """Its first answer of one token says little; each item then has its error."""
    found, _ = one_answer(lambda _: plain({"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}))

    assert "'content' is null" in (found.error or "")


@pytest.mark.parametrize(
    ("message", "finish", "text", "thought"),
    [
        ({"content": ""}, "stop", "", 0),
        ({"content": None}, "length", "", 0),
        ({"content": None, "reasoning_content": "Hm."}, "stop", "", 1),
        ({"content": None, "reasoning": "Hm."}, "stop", "", 1),
        ({"content": ["Ro", {"type": "text", "text": "me"}, {"type": "image_url"}]}, "stop", "Rome", 0),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, "Rome"]}, "stop", "Rome", 1),
        ({"content": None, "refusal": "I cannot."}, "stop", "I cannot.", 0),
    ],
)
def test_answers_in_other_forms(message: dict[str, Any], finish: str, text: str, thought: int) -> None:
    """Parts are joined, a refusal is what the model said, and an empty text is an answer."""
    found, respondent = one_answer(of_message(message, finish=finish))

    assert (found.error, found.text) == (None, text)
    assert (THOUGHT_NOTE.format(thought) in respondent.notes) == bool(thought)
    assert (found.finish is FinishReason.LENGTH) == (finish == "length")


def test_half_characters_are_replaced_before_anything_is_kept(tmp_path: Path) -> None:
    """In texts and errors; memory and disk then have the same, and everything can be written."""
    raw = (b'{"choices":[{"message":{"content":"\\ud800 x \\ud83d\\ude00"}}]}', b'{"error":"bad \\udfff"}')
    items = (CHAT, replace(CHAT, id="other", max_tokens=4))

    def answer(request: MockRequest) -> Answer:
        place = request.body["max_tokens"] - 3
        return said(request, "x") if is_first_look(request) else script.at_once(raw[place])

    with served_in_thread(answer) as server:
        endpoint, _ = server_endpoint(server.url)
        with ServerRespondent(endpoint, items, OPTIONS, pauses_s=()) as respondent:
            model, found = ask_all(respondent, items, tmp_path)
    (path,) = (tmp_path / "answers").iterdir()

    assert {one.item_id: one for one in read_answers(path).answers} == {one.item_id: one for one in found.values()}
    assert model.outcomes[0].text == "\ufffd x 😀"
    assert "\udfff" not in str(model.outcomes[1].reason)
    json.dumps([outcome.text for outcome in model.outcomes], ensure_ascii=False).encode()


def test_counts_that_nobody_can_have_counted_are_left_out(tmp_path: Path) -> None:
    """Else the file of answers could be written, and never read again."""
    with served_in_thread(of_message({"content": "Rome"}, usage={"completion_tokens": 10**12})) as server:
        endpoint, _ = server_endpoint(server.url)
        with ServerRespondent(endpoint, (CHAT,), OPTIONS) as respondent:
            ask_all(respondent, (CHAT,), tmp_path)
    (path,) = (tmp_path / "answers").iterdir()

    (kept,) = read_answers(path).answers
    assert (kept.text, kept.tokens) == ("Rome", None)


@pytest.mark.parametrize(
    ("key", "text", "shown"),
    [
        ("sk-SECRET", "You said Bearer sk-SECRET, sk-SECRET.", "You said Bearer [key], [key]."),
        ("7", "Bearer 7, and 7 of 17", "Bearer [key], and 7 of 17"),
        ("ollama", "ollama is a tool", "ollama is a tool"),
        ("12345678901234567890", "It is 12345678901234567890", "It is [key]"),
    ],
)
def test_no_key_is_in_an_answer(monkeypatch: pytest.MonkeyPatch, key: str, text: str, shown: str) -> None:
    """A server that repeats it has it taken out; a word that is no secret stays where it stands."""
    monkeypatch.setenv("SUFFICE_API_KEY", key)

    found, _ = one_answer(of_message({"content": text}))

    assert found.text == shown


def test_a_key_in_the_address_is_in_no_answer() -> None:
    """A query's value of such a name; a version is none."""
    with served_in_thread(of_message({"content": "q-secret in 2024-10-21"})) as server:
        endpoint, _ = server_endpoint(f"{server.url}/v1?api-key=q-secret&api-version=2024-10-21")
        with ServerRespondent(endpoint, (CHAT,), OPTIONS) as respondent:
            (found,) = respondent.ask((CHAT,))

    assert found.text == "[key] in 2024-10-21"


def test_another_model_that_answers_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, without a key in it; the same name as a path is the same model."""
    monkeypatch.setenv("SUFFICE_API_KEY", "sk-SECRET")

    _, other = one_answer(of_message({"content": "x"}, model="big\nsk-SECRET"))
    _, same = one_answer(of_message({"content": "x"}, model="/models/Mock.gguf"))

    assert other.notes == ("it was asked for the model mock, and says that another one answered: big [key]",)
    assert same.notes == ()


def test_a_server_is_called_by_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that serve the same one have host and port behind; a file and a named model keep their names, a silent server its address."""
    with served_in_thread(lambda request: said(request, "x")) as one, served_in_thread(lambda _: plain({})) as two:
        both = parties(one.url, [two.url, two.url, "mock.gguf", "http://127.0.0.1:9/v1", f"{one.url}/v1#big"])
        found = named_by_model(both)
        monkeypatch.setattr(two, "_model", "models/smollm2-q4_k_m.gguf")
        different = named_by_model(parties(one.url, [two.url]))

    place = two.url.removeprefix("http://")
    names = [f"mock ({one.url.removeprefix('http://')})", f"mock ({place})", f"mock ({place}) (2)", "mock"]
    assert [party.name for party in found] == [*names, "127.0.0.1:9", "big"]
    assert [party.url for party in found] == [party.url for party in both]
    assert [party.name for party in different] == ["mock", "smollm2-q4_k_m"]


@pytest.mark.parametrize(
    ("models", "props", "name"),
    [
        ([{"id": "gpt-3.5-turbo"}], {"model_path": "/m/qwen-q4.gguf"}, "qwen-q4"),
        ([{"id": "/m/qwen-q4.gguf"}], {}, "qwen-q4"),
        ([{"id": "Qwen/Qwen2.5-7B-Instruct"}], {}, "Qwen2.5-7B-Instruct"),
        ([], {"model_alias": "mine", "model_path": "/m/q.gguf"}, "mine"),
        ([{"id": 3}], {"model_path": None}, None),
        ([], {}, None),
    ],
)
def test_what_a_server_tells_of_its_model(
    monkeypatch: pytest.MonkeyPatch, models: list[object], props: dict[str, object], name: str | None
) -> None:
    """The listed name, or llama.cpp's alias or file where that says nothing."""

    async def look_at(_client: object, _endpoint: object, url: str) -> dict[str, object]:
        return props if url.endswith("/props") else {"data": models}

    monkeypatch.setattr(server_look, "look_at", look_at)

    async def ask() -> str | None:
        async with httpx.AsyncClient() as client:
            return await server_look.served_by(client, server_endpoint("http://there")[0])

    assert asyncio.run(ask()) == name


def test_names_of_models_lose_folders_and_endings() -> None:
    """Of any system's paths."""
    assert [model_name(told) for told in ("C:\\m\\a.GGUF", "a/b/", "x.gguf.bak", "  ")] == ["a", "b", "x.gguf.bak", ""]


def test_notes_of_a_comparison_are_said_once_and_only_where_they_hold() -> None:
    """Choices as a text are all models' way; speed matters only where a demand is."""
    as_text = AskOptions(choices_as_text=True)

    assert comparison_notes((SKY,), as_text, has_server=True, has_demand=True) == (LISTED_NOTE, SERVER_SPEED_NOTE)
    assert comparison_notes((PROMPT,), as_text, has_server=True, has_demand=False) == ()
    assert comparison_notes((SKY,), AskOptions(), has_server=False, has_demand=True) == ()
