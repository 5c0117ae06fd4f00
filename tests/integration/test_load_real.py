"""`suffice load` against llama.cpp's own server: a small model in slices that suffice wrote, served by xllamacpp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.slices import Q8Blocks, slice_header
from suffice.errors import EngineCrashError
from suffice.load.endpoint import endpoint_of
from suffice.load.session import Content, run_session
from suffice.load.settings import Api, LoadPlan, Loop
from suffice.load.spawn import spawned_server
from suffice.model.load_metrics import Limits
from suffice.model.load_request import TokenSource
from suffice.slices.cache import SliceCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suffice.load.result import LoadResult

pytestmark = pytest.mark.engine

OUTPUT_TOKENS = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few megabytes with random weights and a vocabulary of bytes."""
    pytest.importorskip("xllamacpp")
    sizes = ToyLlama(n_layer=4, n_embd=256, n_ff=512, n_vocab=512, tied=False, type_name="q8_0")
    return SliceCache(tmp_path_factory.mktemp("cache")).obtain(slice_header(sizes), Q8Blocks(), progress=lambda _: None)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    """llama.cpp's server with two slots, for all tests of this file."""
    try:
        with spawned_server(model, slots=2, context_per_slot=1024, threads=1) as address:
            yield address
    except EngineCrashError as error:
        pytest.skip(f"this build does not run on this machine: {error}")


def loaded(server: str, content: Content, **plan: Any) -> LoadResult:  # noqa: ANN401  # fields of a plan
    """A run over the completions interface: a toy has no chat template of its own."""
    endpoint, _ = endpoint_of(server, Api.COMPLETIONS)
    fields = {"loop": Loop.CLOSED, "concurrency": 1, "requests": 6, "warm_up": 1, "timeout_s": 60.0}
    return run_session(LoadPlan(**{**fields, **plan}), content, endpoint, Limits(e2e_s=60.0), lambda _: None)


def test_tokens_are_the_servers_and_as_many_as_asked_for(server: str) -> None:
    """Every answer succeeds with the exact length, counted by usage, and one without a usage would have no TPOT."""
    result = loaded(server, Content(prompt_tokens=16, output_tokens=OUTPUT_TOKENS))

    assert result.summary.succeeded == result.summary.attempted == 6
    assert {row.output_tokens for row in result.rows} == {OUTPUT_TOKENS}
    assert {row.token_source for row in result.rows} == {TokenSource.USAGE}
    assert result.settings.accepted.exact_length
    assert result.summary.attainment is not None
    assert result.summary.attainment.attained == 6


def test_the_servers_own_times_are_found_and_compared(server: str) -> None:
    """llama.cpp sends its timings in streams: each row has them, no text came before its prompt was evaluated."""
    result = loaded(server, Content(prompt_tokens=48, output_tokens=OUTPUT_TOKENS), requests=8)

    assert result.server is not None
    assert result.server.requests == 8
    assert result.server.ttft_over_prompt is not None
    assert result.server.ttft_over_prompt > 0.97
    assert all(row.timings is not None and row.timings.predicted_tokens == OUTPUT_TOKENS for row in result.rows)


def test_made_prompts_are_not_answered_from_the_cache(server: str) -> None:
    """The server's prompt cache is on, and finds next to nothing to reuse; a shared prefix is found."""
    unique = loaded(server, Content(prompt_tokens=40, output_tokens=2))
    shared = loaded(server, Content(prompt_tokens=40, output_tokens=2, shared_prefix=30))

    assert max(row.cached_tokens or 0 for row in unique.rows) < 20
    assert max(row.cached_tokens or 0 for row in shared.rows) > 60
    assert not any("prompt cache" in warning for warning in unique.warnings)


def test_more_users_than_slots_wait_and_nobody_fails(server: str) -> None:
    """Six users at two slots: all are answered."""
    result = loaded(server, Content(prompt_tokens=16, output_tokens=8), concurrency=6, requests=12, warm_up=6)

    assert result.summary.failed == 0
    assert result.summary.attempted == 12
    assert result.summary.output_tokens_per_second is not None
