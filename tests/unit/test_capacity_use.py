"""What a search is used for: its file as evidence, limits as the verdict takes them, and what is said while and after it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from typer.testing import CliRunner

from suffice.cli.app import build_app
from suffice.cli.load_capacity import criteria_of
from suffice.decide import words as words_of
from suffice.decide.service_load import limits_of
from suffice.load import mock_script as script
from suffice.load.capacity import find_capacity
from suffice.load.capacity_plan import CapacityPlan, brief_requests
from suffice.load.capacity_progress import LevelProgress, sends_for_s
from suffice.load.capacity_result import capacity_json, lengths_of, read_capacity
from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Pace, Step
from suffice.load.mock_server import served_in_thread
from suffice.load.session import Content
from suffice.load.settings import Api, LoadPlan, Loop
from suffice.loaders.demand import load_demand
from suffice.loaders.load_results import load_results
from suffice.model.capacity import Criterion, LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.model.load_metrics import Limits
from suffice.report.load_capacity import capacity_text, next_step
from suffice.report.load_chart import _figure
from suffice.report.pictures import drawing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.load.capacity_result import CapacityResult, LevelResult
    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest

TTFT_S = 0.005
CONTENT = Content(prompt_tokens=4, output_tokens=4)


def quick(_: MockRequest) -> Answer:
    """Four tokens at once, as many users as there are."""
    return Pace(ttft_s=TTFT_S, gap_s=0.001, tokens=4).answer()


def plan(**changes: Any) -> CapacityPlan:  # noqa: ANN401  # any field of a plan
    """Users with a limit that always holds, one level unless changed."""
    fields: dict[str, Any] = {
        "of": CapacityOf.USERS,
        "criteria": (Criterion(limits=Limits(ttft_s=5.0), share=0.7),),
        "requests": 40,
        "duration_s": 20.0,
        "timeout_s": 5.0,
        "most_probes": 1,
    }
    return CapacityPlan(**{**fields, **changes})


def search(
    the_plan: CapacityPlan, before: CapacityResult | None = None, answer: Callable[[MockRequest], Answer] = quick
) -> CapacityResult:
    """A search against a mock server in a thread."""
    with served_in_thread(answer) as server:
        target, _ = endpoint_of(server.url, Api.CHAT)
        return find_capacity(the_plan, CONTENT, target, lambda _: None, before=before)


def run(*arguments: str) -> Any:  # noqa: ANN401  # a result of Typer's
    """The whole command."""
    return CliRunner().invoke(build_app(), list(arguments))


@pytest.fixture(scope="module")
def one_level() -> CapacityResult:
    """A search of one level."""
    return search(plan())


def test_a_level_has_the_lengths_that_the_server_counted(one_level: CapacityResult, tmp_path: Path) -> None:
    """Mean and P95 of prompts and answers, in the file and read back from it, and in the load that a verdict sees."""
    path = tmp_path / "cap.json"
    path.write_text(capacity_json(one_level), encoding="utf-8")
    level = json.loads(path.read_text(encoding="utf-8"))["levels"][0]

    assert level["prompt_tokens"] == {"mean": 16.0, "p95": 16.0}  # as the mock server counts any prompt
    assert level["output_tokens"] == {"mean": 4.0, "p95": 4.0}
    assert read_capacity(path) == one_level
    assert all((one.prompt.mean, one.output.p95) == (16.0, 4.0) for one in load_results(path))
    assert level["ttft"]["p90"]["needed"] == 36


def test_nobody_counted_so_there_are_no_lengths() -> None:
    """None, not 0; those that were counted count."""
    assert lengths_of([None, None]) is None
    found = lengths_of([None, 10, 20])
    assert found is not None
    assert (found.mean, found.p95) == (15.0, 19.5)


def test_a_file_of_an_earlier_version_is_read_back(one_level: CapacityResult, tmp_path: Path) -> None:
    """Without lengths and P90: a search that began before goes on."""
    document = json.loads(capacity_json(one_level))
    for level in (document["idle"], *document["levels"]):
        for name in ("prompt_tokens", "output_tokens", "most_requests", "most_s"):
            del level[name]
        for name in ("ttft", "tpot", "e2e"):
            del level[name]["p90"]
    path = tmp_path / "cap.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    assert read_capacity(path).levels[0].output_tokens is None


def test_a_search_decides_a_demand_from_end_to_end(tmp_path: Path) -> None:
    """What --find-capacity writes about the mock server is evidence for a demand of the same lengths."""
    demand, result = tmp_path / "demand.toml", tmp_path / "cap.json"
    demand.write_text(
        '[demand]\nkind = "interactive"\nprompt_tokens = 16\noutput_tokens = 4\nconcurrent_users = 1\nmargin = 1.0\n'
        "ttft_s = { p50 = 5.0 }\n",
        encoding="utf-8",
    )
    with served_in_thread(quick) as server:
        words = ["users", "--demand", str(demand), "--most-probes", "2", "--requests", "30", "--out", str(result)]
        searched = run("load", server.url, "--find-capacity", *words)
    decided = run("decide", str(demand), str(result), "--server-kind", "cpu", "--json")

    assert searched.exit_code in {0, 3}, searched.output
    document = json.loads(decided.stdout)
    assert "lengths are not in the file" not in decided.stdout
    levels = json.loads(result.read_text(encoding="utf-8"))["levels"]
    proven = [level for level in levels if level["verdict"] == "holds" and not level["client_is_bottleneck"]]
    # Attempts that are late together are worth fewer: what is left of them may be too few for an interval.
    known = [
        one
        for load in load_results(result)
        if load.ttft
        for one in load.ttft.of_attempts
        if one.fraction == 0.5 and one.high_s
    ]
    assert document["verdict"] in ({words_of.CPU, words_of.UNDECIDED} if proven else {words_of.UNDECIDED})
    assert document["verdict"] == words_of.CPU or not (proven and len(known) == len(levels) + 1)


RATES = {
    "rate": ("tokens_per_second_per_user = 20\n", [(0.05, 0.95)]),
    "rate is tighter": ("tokens_per_second_per_user = 20\ntpot_s = { p90 = 0.1 }\n", [(0.05, 0.95), (0.1, 0.9)]),
    "limit is tighter": ("tokens_per_second_per_user = 5\ntpot_s = { p90 = 0.1 }\n", [(0.1, 0.9), (0.2, 0.95)]),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_for_each_user_limits_tpot_as_in_the_verdict(name: str, tmp_path: Path) -> None:
    """1/rate at P95, and the demand's own limit beside it; check judges by the same ones."""
    text, limits = RATES[name]
    path = tmp_path / "demand.toml"
    path.write_text('[demand]\nkind = "interactive"\n' + text, encoding="utf-8")
    need = load_demand(path)
    criteria = criteria_of(Limits(), 95.0, need)

    assert [(one.limits, one.share) for one in criteria] == [
        (Limits(tpot_s=seconds), share) for seconds, share in limits
    ]
    assert [(one.seconds, one.percent / 100) for one in limits_of(need)] == limits


def test_with_only_a_rate_for_each_user_the_search_and_the_run_are_judged(tmp_path: Path) -> None:
    """Gaps of 20 ms are too slow for 200 tokens/s: one user alone fails, and no attempt of a plain run attains."""
    path = tmp_path / "demand.toml"
    path.write_text(
        '[demand]\nkind = "interactive"\noutput_tokens = 4\ntokens_per_second_per_user = 200\n', encoding="utf-8"
    )
    with served_in_thread(lambda _: Pace(ttft_s=TTFT_S, gap_s=0.02, tokens=4).answer()) as server:
        searched = run("load", server.url, "--find-capacity", "--demand", str(path), "--json")
        loaded = run("load", server.url, "--requests", "4", "--demand", str(path), "--json")
        eased = run("load", server.url, "--requests", "4", "--demand", str(path), "--tpot-limit", "5s", "--json")

    assert searched.exit_code == 1
    assert json.loads(searched.stdout)["settings"]["criteria"][0]["limits"]["tpot_s"] == 0.005
    assert json.loads(loaded.stdout)["attainment"] == 0.0
    assert json.loads(eased.stdout)["attainment"] == 1.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (quick, "one user alone already fails the limits"),
        (lambda request: script.error_answer(500) if request.index else quick(request), "5 http error"),
    ],
)
def test_a_picture_that_was_not_drawn_is_no_secret(
    answer: Callable[[MockRequest], Answer], words: str, tmp_path: Path
) -> None:
    """No level of load: one sentence on stderr says that there is no picture and why."""
    chart = tmp_path / "cap.svg"
    with served_in_thread(answer) as server:
        done = run("load", server.url, "--find-capacity", "--ttft-limit", "1ms", "--chart", str(chart))

    assert not chart.exists()
    (told,) = [line for line in done.stderr.splitlines() if "--chart" in line]
    assert "was not written" in told
    assert words in told


def test_each_level_says_how_far_it_is() -> None:
    """A line a level on stderr: which, at which load, how many requests, and how long at most."""
    with served_in_thread(quick) as server:
        words = ["users", "--ttft-limit", "5s", "--percentile", "70", "--requests", "30", "--most-probes", "2"]
        done = run("load", server.url, "--find-capacity", *words, "--duration", "30s", "--output-tokens", "4")

    lines = [line for line in done.stderr.splitlines() if "level" in line and ": 0 of at most" in line]
    assert len(lines) == 2
    assert (
        "level 1 of at most 2: 1 users, briefly: 0 of at most 32 sent, 0 ended; sends for at most about 30 s"
        in (lines[0])
    )
    assert "level 2 of at most 2: 2 users" in lines[1]
    assert "one user alone: 0 of at most 6 sent" in done.stderr


def test_how_long_a_level_sends() -> None:
    """An open loop's requests over its rate, at most its duration; a closed loop's duration; warm-up before both."""
    rate: dict[str, Any] = {"loop": Loop.OPEN, "rate_per_s": 2.0, "warm_up": 10, "timeout_s": 5.0}
    users = LoadPlan(loop=Loop.CLOSED, concurrency=4, warm_up=8, requests=100, duration_s=60.0, timeout_s=5.0)

    assert sends_for_s(LoadPlan(requests=100, duration_s=300.0, **rate), 1.0) == 5 + 50
    assert sends_for_s(LoadPlan(requests=1000, duration_s=300.0, **rate), 1.0) == 5 + 300
    assert sends_for_s(users, 3.0) == 8 * 3 / 4 + 60


def test_a_level_that_has_sent_all_waits() -> None:
    """No more is sent then; random gaps that take longer than their mean are no end."""
    said: list[str] = []
    over = LoadPlan(loop=Loop.CLOSED, concurrency=1, requests=5, duration_s=1e-9, timeout_s=5.0)
    tell = LevelProgress(said.append, "level 3", over, 1.0)
    tell(4, 3)
    tell(5, 4)

    assert said[-2] == "level 3: 4 of at most 5 sent, 3 ended; sends for at most about 0 s more"
    assert said[-1] == "level 3: 5 of at most 5 sent, 4 ended; waits for what is under way"


def undecided(one: LevelResult, **changes: Any) -> LevelResult:  # noqa: ANN401  # any field of a level
    """A level that was tried at length and told nothing."""
    fields: dict[str, Any] = {
        "thorough": True,
        "verdict": LevelVerdict.UNDECIDED,
        "client_is_bottleneck": False,
        "client_starved": False,
    }
    return replace(one, **{**fields, **changes})


def test_an_undecided_level_is_tried_again_when_it_may_be_longer(one_level: CapacityResult) -> None:
    """--resume with more --requests: the level that told nothing is run at length again; with as many, it is not."""
    one = one_level.levels[0]
    tried = (
        replace(one, good=True, verdict=LevelVerdict.UNDECIDED),
        replace(one, level=2.0, good=False, verdict=LevelVerdict.FAILS),
        undecided(one, good=True),
    )
    before = replace(one_level, levels=tried)
    longer, same = plan(requests=80, most_probes=4), plan(most_probes=4)

    again, other = search(longer, before), search(same, before)

    assert again.settings.agrees(replace(before.settings, url=again.settings.url))
    assert [(level.level, level.thorough) for level in again.levels[3:]] == [(1.0, True)]
    assert again.levels[3].most_requests == 80
    assert other.levels == tried


@pytest.mark.parametrize(
    ("changes", "probes", "words", "absent"),
    [
        ({"most_requests": 40, "most_s": 20.0, "length_s": 1.0}, 16, "--requests (had 40", "--duration"),
        ({"most_requests": 4000, "most_s": 20.0, "length_s": 19.0}, 16, "--duration (had 20 s", "--requests"),
        ({"thorough": False}, 1, "--most-probes (had 1, used 1)", "--requests"),
        ({"client_is_bottleneck": True}, 16, "core of its own", "--requests"),
        ({"client_is_bottleneck": True, "client_starved": True}, 16, "fewer threads for the server", "--requests"),
    ],
)
def test_an_undecided_search_says_what_to_do_next(
    one_level: CapacityResult, changes: dict[str, Any], probes: int, words: str, absent: str
) -> None:
    """--resume, with more of what the levels ran out of."""
    level = undecided(one_level.levels[0], **changes)
    settings = replace(one_level.settings, most_probes=probes)
    result = replace(one_level, settings=settings, levels=(level,), finished=True)

    assert words in next_step(result)
    assert absent not in next_step(result)
    assert "next        " in capacity_text(result)


def test_a_busy_client_beyond_the_answer_is_no_reason(one_level: CapacityResult) -> None:
    """The level that failed bounds the answer: what lies above it is open no more, what lies below needs more requests."""
    one = one_level.levels[0]
    fails = replace(one, level=8.0, verdict=LevelVerdict.FAILS, thorough=True)
    above = undecided(one, level=9.0, client_is_bottleneck=True)
    result = replace(one_level, levels=(fails, above, undecided(one, level=4.0)), finished=True)

    assert "core of its own" not in next_step(result)
    assert "--requests (had 40" in next_step(result)


def test_a_search_that_was_cut_off_goes_on(one_level: CapacityResult) -> None:
    """Interrupted, or ended by the server's trouble: --resume, and first the server."""
    assert next_step(replace(one_level, interrupted=True)).startswith("go on with the same command with --resume")
    assert "what ails the server" in next_step(replace(one_level, ended_early="it died"))


@pytest.mark.parametrize(
    ("shares", "requests", "brief"),
    [
        ((0.95,), 1200, 72),
        ((0.99,), 1200, 368),
        ((0.5, 0.9), 1200, 60),
        ((0.999,), 1200, 600),  # it would need 3688
        ((0.99,), 100, 60),
        ((0.95,), 40, 40),
    ],
)
def test_brief_levels_are_long_enough_for_the_percentile_of_the_limits(
    shares: tuple[float, ...], requests: int, brief: int
) -> None:
    """As many requests as the highest percentile needs, at most half of a level at length, and 60 in any case."""
    criteria = tuple(Criterion(limits=Limits(ttft_s=5.0), share=share) for share in shares)

    assert brief_requests(plan(criteria=criteria, requests=requests)) == brief


def test_a_search_with_shorter_brief_levels_is_gone_on_with(one_level: CapacityResult) -> None:
    """How long a look is decides nothing: files of versions with other looks belong to the same search."""
    assert one_level.settings.agrees(replace(one_level.settings, brief_requests=61))


TPOT = (Criterion(limits=Limits(tpot_s=1.0), share=0.7),)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (script.usage(0), "the server said 0 tokens"),
        (b"", "the server counted no tokens"),
        (script.usage(10**9), "the server said more tokens than the text can have"),
    ],
)
def test_a_server_that_does_not_count_cannot_be_judged_by_tpot(stated: bytes, reason: str) -> None:
    """Usage of 0, none, and one of a thousand million: the search ends after one user alone and says why."""

    def answer(_: MockRequest) -> Answer:
        texts = tuple(Step(at_s=0.003 * number, content=script.text("a")) for number in range(4))
        return script.Answer(steps=(*texts, Step(at_s=0.01, content=script.finish() + stated + script.DONE)))

    found = search(plan(criteria=TPOT), answer=answer)

    assert found.levels == ()
    assert "no answer to one user alone has a TPOT" in (found.ended_early or "")
    assert reason in (found.ended_early or "")
    assert found.idle is not None
    assert found.idle.untimed[reason] > 0


def test_attempts_without_tpot_are_counted_and_reported(tmp_path: Path) -> None:
    """Every second answer has a usage of 0: no level holds, the file has how many, and the text says so once for all levels."""

    def answer(request: MockRequest) -> Answer:
        steps = tuple(Step(at_s=0.003 * number, content=script.text("a")) for number in range(4))
        end = script.finish() + script.usage(4 * (request.index % 2)) + script.DONE
        return script.Answer(steps=(*steps, Step(at_s=0.01, content=end)))

    found = search(plan(criteria=TPOT, most_probes=2), answer=answer)
    path = tmp_path / "cap.json"
    path.write_text(capacity_json(found), encoding="utf-8")
    lines = [
        line for line in capacity_text(found).splitlines() if "the server said 0 tokens" in line and "warning" in line
    ]

    assert [level for level in found.levels if level.verdict is LevelVerdict.HOLDS] == []
    assert all(level.untimed["the server said 0 tokens"] >= 10 for level in found.levels)
    assert found.levels[0].criteria[0].unknown >= 10
    assert len(lines) == 1
    assert "attempts had no TPOT: the server said 0 tokens" in lines[0]
    assert read_capacity(path) == found


def test_each_kind_of_warning_is_printed_once_with_its_levels(one_level: CapacityResult) -> None:
    """The same doubt with other numbers is one line, which names all of its levels and those whose numbers it has."""
    one = one_level.levels[0]
    levels = (
        replace(one, level=2.0, warnings=("3 of 40 answers have another length", "a cache was used")),
        replace(one, level=4.0, warnings=("9 of 40 answers have another length",)),
    )
    idle = replace(one, warnings=())
    lines = [
        line for line in capacity_text(replace(one_level, idle=idle, levels=levels)).splitlines() if "warning" in line
    ]

    assert lines == [
        "warning: 2, 4 users (the numbers are those of 2): 3 of 40 answers have another length",
        "warning: 2 users: a cache was used",
    ]


def test_the_picture_covers_nothing_and_cuts_nothing(one_level: CapacityResult) -> None:
    """A long model and address stay within the figure, legends lie outside their panels, and a far limit does not press the data flat."""
    far = replace(
        one_level.settings,
        criteria=(Criterion(limits=Limits(ttft_s=60.0, tpot_s=60.0), share=0.7),),
        model="a-model-" * 40,
        url="https://" + "host." * 60,
    )
    with drawing():
        figure = _figure(replace(one_level, settings=far))
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        width, height = figure.canvas.get_width_height()
        texts = [one for one in figure.findobj(Text) if isinstance(one, Text)]
        (title,) = [one.get_window_extent() for one in texts if one.get_text() == figure.get_suptitle()]
        for axes in figure.axes:
            legend = axes.get_legend()
            assert legend is not None
            assert legend.get_window_extent().y0 >= axes.get_window_extent().y1
            assert legend.get_window_extent().x1 <= width

    assert all(axes.get_ylim()[1] < 60 for axes in figure.axes[1:])
    assert 0 <= title.x0 < title.x1 <= width
    assert title.y1 <= height
