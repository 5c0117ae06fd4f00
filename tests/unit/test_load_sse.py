"""Events out of bytes, and answers out of events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.load.answer import NotTheProtocolError, read_event
from suffice.load.sse import MAX_EVENT_BYTES, EventParser, EventTooLargeError, ServerEvent
from suffice.load.transcript import Transcript
from suffice.model.load_request import Outcome, TokenSource

TEXTS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=12)


def delta(document: Any) -> Any:  # noqa: ANN401  # any JSON
    """The content of an event with this object."""
    return read_event(ServerEvent(data=json.dumps(document)))


@settings(max_examples=150)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_events_do_not_depend_on_how_they_are_cut(texts: list[str], line_end: str, data: st.DataObject) -> None:
    """Any cut of the bytes, through characters and through CRLF, gives the events that the whole gives."""
    lines = [part for text in texts for part in (": comment", "event: x", f"data: {text}", "")]
    content = (line_end.join(lines) + line_end).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    parser = EventParser()

    found = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
        for event in parser.feed(content[start:end])
    ]

    assert [event.data for event in found] == texts
    assert not parser.inside_event


@settings(max_examples=150)
@given(st.lists(st.binary(max_size=30), max_size=8))
def test_no_bytes_break_the_parser_or_the_transcript(pieces: list[bytes]) -> None:
    """Whatever a server sends ends in an outcome, and is a success only with text in it."""
    transcript = Transcript()
    for at_ns, piece in enumerate(pieces):
        transcript.feed(piece, at_ns)

    outcome, _ = transcript.outcome(broken=False)

    assert outcome is not Outcome.SUCCESS or transcript.facts()["chunk_ns"]


@settings(max_examples=100)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "delta", "content", "usage", "timings", "error", "prompt_ms", "tool_calls", "function", "completion_tokens"]), inner, max_size=4)))  # fmt: skip
def test_any_json_is_read_or_refused(document: object) -> None:
    """No shape of JSON crashes the reader; tokens are never negative or booleans."""
    try:
        found = delta(document)
    except NotTheProtocolError:
        assert not isinstance(document, dict)
        return
    count = None if found.usage is None else found.usage.output_tokens
    assert count is None or (count >= 0 and not isinstance(count, bool))


def test_several_data_lines_are_one_event() -> None:
    """Lines of data are joined by newlines, as the standard says."""
    assert [event.data for event in EventParser().feed(b"data: a\ndata: b\n\ndata:c\n\n")] == ["a\nb", "c"]


def test_an_event_without_its_empty_line_is_not_there_yet() -> None:
    """What the stream's end cuts off is lost, and known to be."""
    parser = EventParser()

    assert parser.feed(b"data: half") == []
    assert parser.inside_event


def test_an_endless_event_is_refused() -> None:
    """A server cannot fill the client's memory."""
    parser = EventParser()

    with pytest.raises(EventTooLargeError):
        parser.feed(b"data: " + b"x" * MAX_EVENT_BYTES)


@pytest.mark.parametrize(
    "document",
    [
        {"error": {"message": "overloaded"}},
        {"error": "overloaded"},
        {"object": "error", "message": "overloaded"},
    ],
)
def test_errors_of_every_dialect_are_errors(document: object) -> None:
    """An error in a stream is found in each form that servers use."""
    assert delta(document).error == "overloaded"


def test_text_comes_from_chat_completions_reasoning_and_tools() -> None:
    """Each dialect's generated text is text, and a role or an empty text is none."""
    documents = [
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"text": "a"}]},
        {"choices": [{"delta": {"reasoning_content": "a"}}]},
        {"choices": [{"delta": {"reasoning": "a"}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "a"}}]}}]},
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": None}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 3}},
    ]

    assert [delta(document).has_text for document in documents] == [True] * 5 + [False] * 3


def test_timings_count_tokens_where_usage_does_not() -> None:
    """llama.cpp's own count stands in for a missing usage, and says so; a usage of 0 for a text is no count."""
    transcript = Transcript()
    transcript.feed(b'data: {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 0}}\n\n', 1)
    transcript.feed(b'data: {"choices": [], "timings": {"predicted_n": 5, "predicted_ms": 10}}\n\ndata: [DONE]\n\n', 2)

    assert transcript.facts()["output_tokens"] == 5
    assert transcript.facts()["token_source"] is TokenSource.TIMINGS
