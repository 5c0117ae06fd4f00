"""`suffice load` against llama.cpp's own server: a small model in slices that suffice wrote, served by xllamacpp."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from helpers.gguf_writer import ToyLlama
from helpers.slices import Q8Blocks, slice_header
from suffice.errors import EngineCrashError
from suffice.load.capacity import find_capacity
from suffice.load.capacity_plan import CapacityPlan
from suffice.load.capacity_result import CapacityStatus
from suffice.load.endpoint import endpoint_of
from suffice.load.session import Content, run_session
from suffice.load.settings import Api, LoadPlan, Loop
from suffice.load.spawn import spawned_server
from suffice.model.capacity import Criterion, LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.model.load_metrics import Limits
from suffice.model.load_request import Outcome, TokenSource
from suffice.slices.cache import SliceCache
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


def test_tokens_and_times_of_the_server_are_found(server: str) -> None:
    """Answers have the exact length by the server's usage; each row has its timings, and no text came before its prompt was evaluated."""
    result = loaded(server, Content(prompt_tokens=48, output_tokens=OUTPUT_TOKENS), requests=8)

    assert result.summary.succeeded == result.summary.attempted == 8
    assert result.settings.accepted.exact_length
    assert {(row.output_tokens, row.token_source) for row in result.rows} == {(OUTPUT_TOKENS, TokenSource.USAGE)}
    assert result.summary.attainment is not None
    assert result.summary.attainment.attained == 8
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


def child_of_ours() -> psutil.Process:
    """The process of the server that this test started: the youngest of our children that serves."""
    living = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    serving = [child for child in living if any("spawn_child" in word for word in child.cmdline())]
    return max(serving, key=lambda child: child.create_time())


@pytest.fixture
def victim(model: Path) -> Iterator[str]:
    """A server that may be killed, for one test alone; a server that was stopped goes on, so that it can end."""
    try:
        with spawned_server(model, slots=2, context_per_slot=1024, threads=1) as address:
            process = child_of_ours()
            yield address
            with suppress(psutil.NoSuchProcess):
                process.resume()
    except EngineCrashError as error:
        pytest.skip(f"this build does not run on this machine: {error}")


def struck(what: Callable[[psutil.Process], None], when: str) -> Callable[[str], None]:
    """A progress function that strikes the server once, at the first step that begins so."""
    done: list[str] = []

    def progress(step: str) -> None:
        if step.startswith(when) and not done:
            done.append(step)
            what(child_of_ours())

    return progress


def test_a_server_that_is_killed_in_the_middle_ends_the_run(victim: str) -> None:
    """SIGKILL under load: the answers before it are kept, later requests find nobody, and the loop ends instead of spinning."""
    endpoint, _ = endpoint_of(victim, Api.COMPLETIONS)
    plan = LoadPlan(loop=Loop.CLOSED, concurrency=2, requests=100_000, timeout_s=20.0)
    content = Content(prompt_tokens=16, output_tokens=OUTPUT_TOKENS)
    result = run_session(plan, content, endpoint, Limits(), struck(psutil.Process.kill, "1"))
    reasons = {outcome for outcome, _ in result.summary.failures}

    assert result.ended_early is not None
    assert result.summary.succeeded > 0
    assert Outcome.NO_CONNECTION in reasons
    assert reasons <= {Outcome.NO_CONNECTION, Outcome.CUT_OFF}


def test_a_server_that_stands_still_costs_no_more_than_the_timeout(victim: str) -> None:
    """SIGSTOP under load: what is under way ends as a time-out, what came before is kept, and the run ends."""
    endpoint, _ = endpoint_of(victim, Api.COMPLETIONS)
    plan = LoadPlan(loop=Loop.OPEN, rate_per_s=20.0, duration_s=3.0, timeout_s=2.0)
    content = Content(prompt_tokens=16, output_tokens=OUTPUT_TOKENS)
    result = run_session(plan, content, endpoint, Limits(ttft_s=1.0), struck(psutil.Process.suspend, "1"))
    longest_ns = max(row.end_ns - row.dispatched_ns for row in result.rows)

    assert result.summary.succeeded > 0
    assert dict(result.summary.failures).get(Outcome.TIMEOUT, 0) > 0
    assert longest_ns < 12 * NANOSECONDS_PER_SECOND  # the time-out, and that for connecting
    assert result.summary.attainment is not None
    assert result.summary.attainment.missed > 0


def test_a_search_on_a_real_server_has_its_levels(server: str) -> None:
    """Users of two slots, a limit that one user alone keeps by far: levels with the server's own tokens, none of them failed."""
    endpoint, _ = endpoint_of(server, Api.COMPLETIONS)
    plan = CapacityPlan(
        of=CapacityOf.USERS, criteria=(Criterion(limits=Limits(e2e_s=60.0), share=0.5),), requests=40, most_probes=2
    )
    found = find_capacity(plan, Content(prompt_tokens=16, output_tokens=8), endpoint, lambda _: None)

    assert found.ended_early is None
    assert [level.level for level in found.levels] == [1.0, 2.0]
    assert all(level.output_tokens_per_second for level in found.levels)
    assert all(level.failures == {} for level in found.levels)


def test_a_server_that_is_killed_ends_a_search_with_what_was_there(victim: str) -> None:
    """SIGKILL at the second level: the first is kept, the second is undecided, and the reason is said."""
    endpoint, _ = endpoint_of(victim, Api.COMPLETIONS)
    plan = CapacityPlan(
        of=CapacityOf.USERS,
        criteria=(Criterion(limits=Limits(e2e_s=60.0), share=0.9),),
        requests=40,
        duration_s=20.0,
        timeout_s=20.0,
    )
    content = Content(prompt_tokens=16, output_tokens=8)
    found = find_capacity(plan, content, endpoint, struck(psutil.Process.kill, "level 2"))

    assert "no connection" in (found.ended_early or "")
    assert found.levels[0].succeeded > 0
    assert [level.verdict for level in found.levels[1:]] == [LevelVerdict.UNDECIDED]
    assert found.status is CapacityStatus.UNDECIDED


def test_a_server_that_stands_still_ends_a_search(victim: str) -> None:
    """SIGSTOP at the second level: nothing is waited for longer than the time-outs, and standing still is no failing level."""
    endpoint, _ = endpoint_of(victim, Api.COMPLETIONS)
    plan = CapacityPlan(
        of=CapacityOf.USERS,
        criteria=(Criterion(limits=Limits(ttft_s=1.0), share=0.9),),
        requests=40,
        duration_s=3.0,
        timeout_s=1.0,
    )
    content = Content(prompt_tokens=16, output_tokens=8)
    found = find_capacity(plan, content, endpoint, struck(psutil.Process.suspend, "level 2"))

    assert "did not answer a lone request" in (found.ended_early or "")
    assert found.levels[-1].verdict is LevelVerdict.UNDECIDED
