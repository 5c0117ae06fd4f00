"""A server that is asked: what is sent, what comes back in which dialect, and every way in which that fails."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.asked_servers import CHAT, OPTIONS, PROMPT, SKY, asked, is_first_look, item, plain, said
from suffice.errors import UsageError
from suffice.load import mock_script as script
from suffice.load.mock_script import Ending
from suffice.load.mock_server import served_in_thread
from suffice.model.answers import FinishReason
from suffice.model.quants import SubjectKind
from suffice.quants.asking import ask_all
from suffice.quants.server import (
    NO_CHAT_NOTE,
    NO_COMPLETIONS_NOTE,
    NO_SEED_NOTE,
    PASSWORD_WARNING,
    ServerRespondent,
    server_endpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest, MockServer

MANY = tuple(item(f"q{number}", prompt=f"Question {number}", answers=("Rome",)) for number in range(20))


def bodies(server: MockServer) -> dict[str, dict[str, Any]]:
    """What was sent for the items, by path."""
    return {one.request.path: one.request.body for one in server.served if not is_first_look(one.request)}


def test_prompts_and_messages_go_to_their_interfaces() -> None:
    """Greedy, with a seed, the item's stops and lengths, and nothing streamed; usage and end come back."""
    with served_in_thread(lambda request: said(request, "Rome")) as server:
        found, respondent = asked(server, (PROMPT, CHAT))
        sent = bodies(server)

    common = {"model": "mock", "stream": False, "temperature": 0, "seed": 0}
    assert sent["/v1/completions"] == {**common, "prompt": PROMPT.prompt, "stop": ["\n"], "max_tokens": 8}
    messages = [{"role": "user", "content": "The capital of Italy?"}]
    assert sent["/v1/chat/completions"] == {**common, "messages": messages, "max_tokens": 3}
    assert {answer.text for answer in found.values()} == {"Rome"}
    assert (found["chat"].tokens, found["chat"].prompt_tokens, found["chat"].finish) == (2, 7, FinishReason.STOP)
    assert respondent.subject.kind is SubjectKind.SERVER
    assert respondent.subject.identity.startswith(f"{server.url}/v1 mock ")
    assert respondent.notes == ()


def test_choices_are_listed_and_the_letter_is_read(tmp_path: Path) -> None:
    """A server is asked for the letter through its chat interface, and the letter is scored."""
    with served_in_thread(lambda request: said(request, "B")) as server:
        endpoint, _ = server_endpoint(server.url)
        with ServerRespondent(endpoint, (SKY,), OPTIONS) as respondent:
            model, _ = ask_all(respondent, (SKY,), tmp_path)
        sent = bodies(server)

    assert sent["/v1/chat/completions"]["messages"][0]["content"].startswith("The sky is\n\nA) red\nB) blue\n")
    assert (model.outcomes[0].score, model.outcomes[0].text) == (1.0, "blue")
    assert model.notes == ()


def test_reasoning_is_kept_apart() -> None:
    """What a model thinks stands in a field of its own, is no part of the answer, and is counted."""
    with served_in_thread(lambda request: said(request, "Rome", reasoning_content="Paris? No.")) as server:
        found, respondent = asked(server, (CHAT,))

    assert found["chat"].text == "Rome"
    assert respondent.notes == ("1 of its answers came with reasoning, which is kept apart and not scored",)


@pytest.mark.parametrize("lacking", ["chat", "completions"])
def test_a_server_with_one_interface_is_asked_through_it(lacking: str) -> None:
    """Without completions a prompt is a user's message; without chat, messages are one text; a note says which."""

    def answer(request: MockRequest) -> Answer:
        missing = ("chat" in request.path) == (lacking == "chat")
        return plain({"error": {"message": "no route"}}, 404) if missing else said(request, "Rome")

    with served_in_thread(answer) as server:
        found, respondent = asked(server, (PROMPT, CHAT))

    assert {entry.text for entry in found.values()} == {"Rome"}
    assert respondent.notes == (NO_CHAT_NOTE if lacking == "chat" else NO_COMPLETIONS_NOTE,)


def test_a_server_of_chats_only_is_found_for_prompts_alone() -> None:
    """Where only prompts are asked and there are no completions, the chat interface is looked for."""
    with served_in_thread(
        lambda request: said(request, "Rome") if "chat" in request.path else plain({"detail": "Not Found"}, 404)
    ) as server:
        found, respondent = asked(server, (PROMPT,))

    assert found["prompt"].text == "Rome"
    assert respondent.settings["prompts_through"] == "chat"


def test_a_server_that_takes_no_seed_is_asked_without() -> None:
    """The seed is left out after a refusal, which the settings and a note say."""
    with served_in_thread(
        lambda request: (
            plain({"error": "unknown field: seed"}, 400) if "seed" in request.body else said(request, "Rome")
        )
    ) as server:
        found, respondent = asked(server, (PROMPT,))

    assert found["prompt"].text == "Rome"
    assert respondent.settings["seed"] is None
    assert respondent.notes == (NO_SEED_NOTE,)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _: plain({"error": {"message": "too long"}}, 400), "status 400: too long"),
        (lambda _: plain("oops", 500), "status 500"),
        (lambda _: plain({"error": "overloaded"}), "overloaded"),
        (lambda _: script.at_once(b"<html>", content_type="text/html"), "not one of the OpenAI interface"),
        (lambda _: plain({"choices": []}), "not one of the OpenAI interface"),
        (lambda _: plain({"choices": ["x"]}), "not one of the OpenAI interface"),
        (lambda _: plain([], 302), "status 302"),
        (lambda _: script.at_once(b"x" * 17_000_000), "more than 16 MiB"),
    ],
)
def test_what_a_server_refuses_is_the_items_error(answer: Callable[[MockRequest], Answer], words: str) -> None:
    """Whatever one item is answered, it is an error with the server's words, sent once, and the others are answered."""

    def of_second(request: MockRequest) -> Answer:
        return answer(request) if request.body.get("prompt") == "Question 1" else said(request, "Rome")

    with served_in_thread(of_second) as server:
        found, respondent = asked(server, MANY[:3])
        sent = len(server.served)

    assert words in (found["q1"].error or "")
    assert [found[name].text for name in ("q0", "q2")] == ["Rome", "Rome"]
    assert sent == 4
    assert respondent.notes == ()


def test_an_answer_that_takes_too_long_is_an_error() -> None:
    """A server that hangs costs the item's time-out, and no further try."""
    with served_in_thread(
        lambda request: said(request, "Rome") if is_first_look(request) else script.at_once(b"{", ending=Ending.HANG)
    ) as server:
        found, _ = asked(server, (PROMPT,), replace(OPTIONS, timeout_s=0.3))

    assert found["prompt"].error == "no answer within 0.3 s"


def test_broken_connections_are_tried_again() -> None:
    """A connection that is cut twice, and a server that is not ready, cost further tries that are counted; the third answer counts."""
    tries: list[str] = []

    def answer(request: MockRequest) -> Answer:
        if is_first_look(request):
            return said(request, "x")
        tries.append(request.path)
        cut = script.ended(said(request, "Rome"), Ending.RESET, 0)
        return (cut, plain({"error": "Loading model"}, 503), said(request, "Rome"))[len(tries) - 1]

    with served_in_thread(answer) as server:
        found, respondent = asked(server, (PROMPT,))

    assert found["prompt"].text == "Rome"
    assert respondent.notes == ("further tries after a connection had failed, or the server was not ready: 2",)


def test_a_server_that_is_gone_is_not_asked_on_and_on() -> None:
    """After eight requests in a row without a server the rest become errors at once, and none is missing."""
    with served_in_thread(lambda request: said(request, "Rome")) as server:
        endpoint, _ = server_endpoint(server.url)
        respondent = ServerRespondent(endpoint, MANY, OPTIONS, pauses_s=())
    found = list(respondent.ask(MANY))

    assert len(found) == 20
    assert all(not answer.answered for answer in found)
    assert sum("it seems to have gone" in (answer.error or "") for answer in found) >= 10


def test_a_server_that_is_not_there_is_refused_before_anything_is_asked() -> None:
    """Nobody there, a refused key and an address without the interface are sentences with what to do."""
    endpoint, _ = server_endpoint("http://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"no server answers at http://127.0.0.1:9/v1: .*; is it running"):
        ServerRespondent(endpoint, (PROMPT,), OPTIONS, pauses_s=())
    for status, words in ((401, "SUFFICE_API_KEY"), (404, "check the address")):
        refusal = plain({"error": "no"}, status)
        with served_in_thread(_always(refusal)) as server:
            endpoint, _ = server_endpoint(server.url)
            with pytest.raises(UsageError, match=words):
                ServerRespondent(endpoint, (PROMPT,), OPTIONS, pauses_s=())


def _always(answer: Answer) -> Callable[[MockRequest], Answer]:
    return lambda _: answer


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from SUFFICE_API_KEY alone; a server that repeats it in an error has it taken out, and the URL's password is not sent."""
    monkeypatch.setenv("SUFFICE_API_KEY", "sk-secret")

    def answer(request: MockRequest) -> Answer:
        key = request.headers.get("authorization", "")
        return said(request, "x") if is_first_look(request) else plain({"error": f"bad key {key}"}, 403)

    with served_in_thread(answer) as server:
        endpoint, warnings = server_endpoint(server.url.replace("http://", "http://me:hunter2@") + "/v1?key=q-secret")
        respondent = ServerRespondent(endpoint, (PROMPT,), OPTIONS, warnings=warnings, pauses_s=())
        (failed,) = respondent.ask((PROMPT,))
        keys = {one.request.headers["authorization"] for one in server.served}

    assert keys == {"Bearer sk-secret"}
    assert failed.error == "status 403: bad key Bearer [key]"
    shown = f"{respondent.subject} {respondent.settings} {respondent.notes} {endpoint!r}"
    assert not any(secret in shown for secret in ("sk-secret", "hunter2", "q-secret"))
    assert respondent.subject.warnings == (PASSWORD_WARNING,)


def test_an_interruption_ends_what_is_under_way(tmp_path: Path) -> None:
    """Ctrl-C does not wait for a server that hangs, and the answers that had come are kept."""

    def answer(request: MockRequest) -> Answer:
        if is_first_look(request) or request.body["prompt"] == "Question 0":
            return said(request, "Rome")
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        return script.at_once(b"{", ending=Ending.HANG)

    with served_in_thread(answer) as server:
        endpoint, _ = server_endpoint(server.url)
        respondent = ServerRespondent(endpoint, MANY[:2], OPTIONS)
        with pytest.raises(KeyboardInterrupt):
            ask_all(respondent, MANY[:2], tmp_path)

    (kept,) = (tmp_path / "answers").iterdir()
    assert [json.loads(line).get("text") for line in kept.read_text(encoding="utf-8").splitlines()] == [None, "Rome"]


def test_two_servers_are_compared_item_by_item(tmp_path: Path) -> None:
    """Each has its own file of answers, and as many requests are under way as there are slots."""

    def server_of(text: str) -> Callable[[MockRequest], Answer]:
        return lambda request: said(request, text if request.body.get("prompt") != "Question 3" else "Rome")

    scores = []
    with served_in_thread(server_of("Rome")) as one, served_in_thread(server_of("Paris")) as two:
        for server in (one, two):
            endpoint, _ = server_endpoint(server.url)
            with ServerRespondent(endpoint, MANY, OPTIONS) as respondent:
                model, _ = ask_all(respondent, MANY, tmp_path)
            scores.append([outcome.score for outcome in model.outcomes])

    assert scores[0] == [1.0] * 20
    assert scores[1] == [float(number == 3) for number in range(20)]
    assert len(list((tmp_path / "answers").iterdir())) == 2
