"""What the user gives: prompts, traces, addresses, keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.load_runs import plan
from suffice.errors import UsageError
from suffice.load.endpoint import body_of, endpoint_of, key_from
from suffice.load.prompts import longest_length, made_prompts, prompts_of
from suffice.load.session import Content, longest_exchange
from suffice.load.settings import Accepted, Api, Ask, Loop
from suffice.load.trace import load_trace, trace_asks
from suffice.model.demand import Lengths

if TYPE_CHECKING:
    from collections.abc import Callable

MOONCAKE = """{"timestamp": 1000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 0, "input_length": 6, "output_length": 500, "hash_ids": [46]}
"""
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:05.2799600,3180,8
2023-11-16 18:18:03.9799600,110,0
"""
PLAIN = """{"arrival_s": 2.5, "prompt": "hello", "output_tokens": 4}
{"arrival_s": 3, "prompt_tokens": 7}
"""


def written(path: Path, text: str) -> Path:
    """A file with a text."""
    path.write_text(text, encoding="utf-8")
    return path


def test_mooncakes_form(tmp_path: Path) -> None:
    """Milliseconds become seconds, and arrivals are put in order."""
    trace = load_trace(written(tmp_path / "t.jsonl", MOONCAKE))

    assert [(item.at_s, item.prompt_tokens, item.output_tokens) for item in trace] == [(0.0, 6, 500), (1.0, 6955, 52)]


def test_azures_form(tmp_path: Path) -> None:
    """Times with seven digits are read, and an answer of no token is asked for as one of one."""
    trace = load_trace(written(tmp_path / "t.csv", AZURE))

    assert [item.at_s for item in trace] == pytest.approx([0.0, 1.3, 60.0])
    assert [item.output_tokens for item in trace] == [10, 8, 1]


def test_the_plain_form_and_its_requests(tmp_path: Path) -> None:
    """A prompt of the trace's own is sent as it is; a length becomes a prompt of so many words."""
    trace = load_trace(written(tmp_path / "t.jsonl", PLAIN))
    asks = list(trace_asks(trace, seed=1))

    assert [item.at_s for item in trace] == [0.0, 0.5]
    assert (asks[0].prompt, asks[0].output_tokens) == ("hello", 4)
    assert len((asks[1].prompt or "").split()) == 7
    assert asks[1].output_tokens is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json\n",
        "[1]\n",
        '{"input_length": 3}\n',
        '{"timestamp": -1, "input_length": 3, "output_length": 3}\n',
        '{"timestamp": 1, "input_length": "many", "output_length": 3}\n',
        '{"timestamp": 1, "input_length": true, "output_length": 3}\n',
        '{"arrival_s": 1e999, "prompt": "a"}\n',
        '{"arrival_s": 1, "prompt": ""}\n',
        '{"arrival_s": 1}\n',
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    ],
)
def test_traces_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    """One sentence says which file, and which line."""
    with pytest.raises(UsageError, match=r"t\.jsonl"):
        load_trace(written(tmp_path / "t.jsonl", text))


def test_prompts_of_a_file_are_used_in_order_and_again(tmp_path: Path) -> None:
    """Texts and messages, a length of their own or the run's."""
    path = written(
        tmp_path / "p.jsonl",
        '{"prompt": "a", "output_tokens": 3}\n\n{"messages": [{"role": "user", "content": "b", "name": "x"}]}\n',
    )
    asks = prompts_of(path, 9)
    first, second, third = next(asks), next(asks), next(asks)

    assert (first.prompt, first.output_tokens) == ("a", 3)
    assert (second.messages, second.output_tokens) == (({"role": "user", "content": "b"},), 9)
    assert (third.prompt, third.index) == ("a", 2)


@pytest.mark.parametrize("line", ['{"text": 1}', '{"prompt": "a", "output_tokens": 0}', '{"messages": []}', "{"])
def test_prompts_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    """The line is named."""
    with pytest.raises(UsageError, match="line 1"):
        next(prompts_of(written(tmp_path / "p.jsonl", line), None))


def test_made_prompts_have_their_length_and_their_shared_prefix() -> None:
    """Twelve words of which five are shared; a seed gives the same prompts again."""
    prompts = made_prompts(12, 4, seed=3, shared_prefix=5)
    words = [(next(prompts).prompt or "").split() for _ in range(3)]

    assert [len(item) for item in words] == [12, 12, 12]
    assert words[0][:5] == words[1][:5] == words[2][:5]
    assert len({" ".join(item[5:]) for item in words}) == 3
    assert next(made_prompts(12, 4, seed=3, shared_prefix=5)).prompt == " ".join(words[0])
    with pytest.raises(UsageError, match="--shared-prefix"):
        next(made_prompts(4, 4, seed=3, shared_prefix=5))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:8080", "http://h:8080/v1/chat/completions"),
        ("h:8080/", "http://h:8080/v1/chat/completions"),
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/api/v3/chat/completions", "https://h/api/v3/chat/completions"),
        ("http://[::1]:8000/v1/completions", "http://[::1]:8000/v1/chat/completions"),
        ("https://h/v1?api-version=2", "https://h/v1/chat/completions?api-version=2"),
    ],
)
def test_addresses_as_people_write_them(url: str, expected: str) -> None:
    """With or without /v1 or the whole path."""
    endpoint, warnings = endpoint_of(url, Api.CHAT)

    assert endpoint.url == expected
    assert warnings == []


def test_credentials_of_an_address_are_taken_away() -> None:
    """They are neither sent nor shown, and a warning says what to do."""
    endpoint, warnings = endpoint_of("https://user:hunter2@h/v1?key=abc#x", Api.CHAT, key="sk-1")

    shown = f"{endpoint!r} {endpoint.shown} {warnings}"
    assert endpoint.base == "https://h/v1"
    assert not any(secret in shown for secret in ("user", "hunter2", "abc", "sk-1"))
    assert "--api-key-env" in warnings[0]
    assert endpoint.without_secrets("no sk-1") == "no [key]"


@pytest.mark.parametrize("url", ["ftp://u:hunter2@h", "http://", "http://u:hunter2@h:port", "http://[h"])
def test_addresses_that_are_none_are_refused_without_repeating_them(url: str) -> None:
    """They may hold a password."""
    with pytest.raises(UsageError) as caught:
        endpoint_of(url, Api.CHAT)

    assert "hunter2" not in str(caught.value)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing or an impossible one is refused by the variable's name, never by its value."""
    monkeypatch.setenv("GOOD_KEY", "sk-1\n")
    monkeypatch.setenv("BAD_KEY", "sk-\u2028hidden")

    assert key_from("GOOD_KEY") == "sk-1"
    assert key_from(None) is None
    with pytest.raises(UsageError, match="BAD_KEY") as caught:
        key_from("BAD_KEY")
    assert "hidden" not in str(caught.value)
    with pytest.raises(UsageError, match="NO_KEY"):
        key_from("NO_KEY")


def test_bodies_hold_what_the_server_takes() -> None:
    """Fields that it refused are left out; without a length none is asked for."""
    endpoint, _ = endpoint_of("h", Api.CHAT, model="m")
    ask = Ask(index=0, prompt="a", output_tokens=5)

    full = body_of(ask, endpoint, Accepted())
    core = body_of(ask, endpoint, Accepted(usage=False, exact_length=False))
    free = body_of(Ask(index=0, prompt="a"), endpoint, Accepted())

    assert full["stream_options"] == {"include_usage": True}
    assert (full["max_tokens"], full["min_tokens"], full["ignore_eos"]) == (5, 5, True)
    assert set(core) == {"stream", "model", "messages", "max_tokens"}
    assert "max_tokens" not in free


def test_equal_blocks_of_a_trace_are_equal_text(tmp_path: Path) -> None:
    """Prompts that have hash_ids in common begin with the same words for as many times 512, and part there; lengths are the trace's."""
    lines = (
        '{"timestamp": 0, "input_length": 1300, "output_length": 1, "hash_ids": [7, 8, 9]}\n'
        '{"timestamp": 1, "input_length": 1100, "output_length": 1, "hash_ids": [7, 8, 10]}\n'
        '{"timestamp": 2, "input_length": 600, "output_length": 1, "hash_ids": [11]}\n'
        '{"timestamp": 3, "input_length": 300, "output_length": 1, "hash_ids": [7]}\n'
    )
    trace = load_trace(written(tmp_path / "t.jsonl", lines))
    words = [(ask.prompt or "").split() for ask in trace_asks(trace, seed=1)]
    other = [(ask.prompt or "").split() for ask in trace_asks(trace, seed=2)]

    assert [len(item) for item in words] == [1300, 1100, 600, 300]
    assert words[0][:1024] == words[1][:1024]
    assert words[0][1024:1100] != words[1][1024:1100]
    assert words[3] == words[0][:300]
    assert words[2][:20] != words[0][:20]
    assert words[0] != other[0]


@pytest.mark.parametrize("ids", ['"a"', "[1.5]", "[true]", "7"])
def test_blocks_that_are_none_are_refused(tmp_path: Path, ids: str) -> None:
    """hash_ids is a list of whole numbers, or is not there."""
    text = f'{{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": {ids}}}'
    with pytest.raises(UsageError, match=r"t\.jsonl line 1: hash_ids"):
        load_trace(written(tmp_path / "t.jsonl", text))


def sizing(content: Content, **changes: Any) -> int:  # noqa: ANN401  # fields of a plan
    """The tokens of a slot for a closed loop of ten requests."""
    return longest_exchange(content, plan(**{"requests": 10, **changes}))


def test_a_slot_has_room_for_the_longest_prompt_that_is_sent(tmp_path: Path) -> None:
    """Of made prompts, of a file (its longest line, not the flags), of messages, and of a trace; lines that are not sent do not count."""
    short, long = '{"prompt": "hello"}\n', f'{{"prompt": "{"x" * 8000}", "output_tokens": 50}}\n'
    chat = f'{{"messages": [{{"role": "user", "content": "{"x" * 6000}"}}]}}\n'
    path, messages = written(tmp_path / "p.jsonl", short + long), written(tmp_path / "m.jsonl", short + chat)
    trace = written(tmp_path / "t.jsonl", MOONCAKE)

    assert sizing(Content(prompt_tokens=100, output_tokens=20)) == 220 + 128
    assert sizing(Content(prompts=path)) == 4000 + 50 + 128
    assert sizing(Content(prompts=path), requests=1) < 300
    assert sizing(Content(prompts=messages, output_tokens=10)) > 3000
    assert sizing(Content(trace=trace), loop=Loop.TRACE) == 2 * 6955 + 52 + 128
    assert sizing(Content(trace=trace), loop=Loop.TRACE, duration_s=0.5) == 2 * 6 + 500 + 128
    assert longest_exchange(Content(prompts=path)) == 4000 + 50 + 128


def test_lengths_of_a_demand_are_drawn_from_it() -> None:
    """The median and the P95 of many prompts are the demand's; none is longer than the slot that was sized for them."""
    lengths = Lengths(p50=40, p95=120)
    prompts = made_prompts(lengths, Lengths(p50=8, p95=8), seed=4)
    asks = [next(prompts) for _ in range(2000)]
    words = sorted(ask.prompt_tokens or 0 for ask in asks)

    assert words[1000] == pytest.approx(40, rel=0.08)
    assert words[1900] == pytest.approx(120, rel=0.12)
    assert words[-1] <= longest_length(lengths)
    assert {ask.output_tokens for ask in asks} == {8}
    assert all(len((ask.prompt or "").split()) == ask.prompt_tokens for ask in asks[:50])
    content = Content(prompt_tokens=40, prompt_lengths=lengths, output_tokens=8)
    assert longest_exchange(content) == 2 * longest_length(lengths) + 8 + 128


@pytest.mark.parametrize(
    "line",
    [
        '{"timestamp": 0, "input_length": 1000000000, "output_length": 3}',
        '{"timestamp": 0, "input_length": 3, "output_length": 1000000000}',
        '{"arrival_s": 0, "prompt": "a", "output_tokens": 2000001}',
        '{"arrival_s": 0, "prompt_tokens": 2000001}',
        f'{{"timestamp": 0, "input_length": {"9" * 30}, "output_length": 3}}',
        f'{{"timestamp": {"9" * 30}, "input_length": 3, "output_length": 3}}',
    ],
)
def test_lengths_beyond_any_context_are_refused_by_their_line(tmp_path: Path, line: str) -> None:
    """A number of a wrong unit or column: the second line is named, nothing is made of such a length, and nothing crashes."""
    fine = '{"timestamp": 0, "input_length": 2000000, "output_length": 3}\n'
    with pytest.raises(
        UsageError, match=r"t\.jsonl line 2: (input_length|output_length|output_tokens|prompt_tokens|timestamp)"
    ) as caught:
        load_trace(written(tmp_path / "t.jsonl", fine + line))

    assert len(str(caught.value)) < 1000
    assert load_trace(written(tmp_path / "t.jsonl", fine))[0].prompt_tokens == 2_000_000


def test_lengths_beyond_any_context_are_refused_everywhere(tmp_path: Path) -> None:
    """In Azure's form and in a file of prompts by their line, on the command line by their flag."""
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n2023-11-16 18:17:05.27,3180,1000000000\n"
    with pytest.raises(UsageError, match=r"t\.csv line 3: GeneratedTokens"):
        load_trace(written(tmp_path / "t.csv", azure))
    with pytest.raises(UsageError, match=r"p\.jsonl line 1: the output length"):
        next(prompts_of(written(tmp_path / "p.jsonl", '{"prompt": "a", "output_tokens": 1000000000}'), None))
    with pytest.raises(UsageError, match="--output-tokens 1000000000"):
        next(made_prompts(3, 1_000_000_000, seed=1))


def test_a_trace_in_the_wrong_unit_of_time_is_refused(tmp_path: Path) -> None:
    """Arrivals in nanoseconds would be waited for for years."""
    lines = "".join(f'{{"timestamp": {at}, "input_length": 3, "output_length": 3}}\n' for at in (0, 10**17))
    with pytest.raises(UsageError, match="more than a year"):
        load_trace(written(tmp_path / "t.jsonl", lines))


@pytest.mark.parametrize("read", [load_trace, lambda path: next(prompts_of(path, None))])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(read: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    """A pipe without a writer, a folder, a device without an end: one sentence, and nobody waits."""
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "device": Path("/dev/zero")}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(UsageError, match=r"not a regular file|a folder"):
        read(path)
