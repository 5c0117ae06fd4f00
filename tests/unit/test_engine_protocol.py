from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from suffice.errors import DemandError, EngineError, EngineMissingError
from suffice.measure.engine import protocol
from suffice.measure.engine.fake import FAKE_IDENTITY, FakeEngine
from suffice.measure.engine.library import LibraryChoice
from suffice.measure.engine.seam import ChunkTimings, EngineSettings, ExpertUse

SETTINGS = EngineSettings(n_ctx=64, n_threads=1, n_threads_batch=2, type_v="q8_0", n_sequences=3, watch_experts=True)


def through_json(value: object) -> object:
    """The value as it arrives on the other side of a pipe."""
    return protocol.parse_reply(protocol.result_line(value))


def test_requests_arrive_as_sent() -> None:
    """Operation and arguments survive the line, quotes and line breaks included."""
    line = protocol.request_line("prefill", {"n_tokens": 3, "prompt": 'a "b"\n€'})
    assert line.count("\n") == 1
    assert protocol.parse_request(line) == ("prefill", {"n_tokens": 3, "prompt": 'a "b"\n€'})


def test_values_of_the_seam_survive_the_pipe() -> None:
    """Settings, identity, facts and timings are equal to what was sent."""
    facts = FakeEngine().open(Path("m.gguf"), SETTINGS).facts
    timings = ChunkTimings(tokens=(512, 3), seconds=(0.25, 1e-9))
    use = ExpertUse(layer=3, distinct_per_step=(2, 5), n_used=2, n_expert=8)
    choice = LibraryChoice(name="x", version=None, library=Path("/a/b"), preload=(Path("/a/c"),), prebuilt=True)

    def copy(value: object) -> dict[str, object]:
        copied: dict[str, object] = json.loads(json.dumps(value))
        return copied

    assert protocol.settings_from_json(copy(protocol.settings_to_json(SETTINGS))) == SETTINGS
    assert protocol.choice_from_json(copy(protocol.choice_to_json(choice))) == choice
    assert protocol.identity_from_json(copy(dataclasses.asdict(FAKE_IDENTITY))) == FAKE_IDENTITY
    assert protocol.facts_from_json(copy(dataclasses.asdict(facts))) == facts
    assert protocol.timings_from_json(copy(dataclasses.asdict(timings))) == timings
    assert protocol.experts_from_json([copy(dataclasses.asdict(use))]) == (use,)
    assert protocol.experts_from_json(None) is None


def test_errors_are_raised_again_under_their_own_class() -> None:
    """An error of the worker is the same error in the client; a class that it should not know becomes EngineError."""
    with pytest.raises(EngineMissingError, match="gone"):
        protocol.parse_reply(protocol.error_line(EngineMissingError("gone")))
    with pytest.raises(EngineError, match="odd"):
        protocol.parse_reply(protocol.error_line(DemandError("odd")))


@pytest.mark.parametrize("line", ["", "GGML says hello", "[1]", "{}", '{"ok": 1}', '{"ok": true'])
def test_what_is_no_reply_is_an_error(line: str) -> None:
    """Text that an engine might print is never taken for a result."""
    with pytest.raises(EngineError):
        protocol.parse_reply(line)


@pytest.mark.parametrize("line", ["", "null", '{"op": 3, "args": {}}', '{"op": "x"}'])
def test_what_is_no_request_is_an_error(line: str) -> None:
    """The worker answers rubbish with an error instead of dying of it."""
    with pytest.raises(EngineError):
        protocol.parse_request(line)


def test_none_is_a_result() -> None:
    """Unknown values arrive as None."""
    assert through_json(None) is None
