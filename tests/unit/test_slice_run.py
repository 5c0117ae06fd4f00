"""Runs on slices, with a fake engine whose truth is planted: it must come out, and what is no line must be no evidence."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from helpers.records import document_of
from helpers.slice_runs import FACTS, KINDS, N_LAYER, Bench, Truth, short_design, toy_header, toy_model
from helpers.watched import observer_of, watch_of
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.guard import Outcome, guard_floor
from suffice.decide.words import CPU, UNDECIDED
from suffice.errors import EngineCrashError, UsageError
from suffice.loaders.shape_model import ShapeModel
from suffice.measure.engine.fake import FakeBehaviour
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.request import RunRequest, SliceChoice
from suffice.measure.shape_run import run_shape
from suffice.measure.slice_run import ENOUGH_TO_EMPTY, UNCACHED_MULTIPLE
from suffice.measure.slice_series import DRIFT_TOKENS, STEPS_PER_TURN, WAKING_STEPS
from suffice.model.demand import single_stream_need
from suffice.model.shape import shape_from_header
from suffice.model.slice_plan import plan_slices
from suffice.model.slices import layer_kinds
from suffice.records.store import record_from, to_json
from suffice.stats.stopping import StoppingRule
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from suffice.records.schema import ExtrapolatedSeries, RunRecord

PROMPT = 64
SLICED = {"slices": SliceChoice.SLICES, "prompt_tokens": PROMPT, "threads": 2, "flash_attention": "on"}


def request(kinds: tuple[str, ...] = KINDS[:1], **changes: Any) -> RunRequest:  # noqa: ANN401  # fields of the request
    """A run of the toy model in slices."""
    return RunRequest(model=toy_model(toy_header(kinds=kinds)), **{**SLICED, **changes})


def measured(bench: Bench, asked: RunRequest, earlier: RunRecord | None = None) -> RunRecord:
    """A run on slices that are much shorter than the model."""
    assert isinstance(asked.model, ShapeModel)
    return bench.run(asked, short_design(asked.model.header), earlier)


def whole(*kinds: str) -> dict[str, int]:
    """Layers of each type in the whole model."""
    return {kind: N_LAYER // len(kinds) for kind in kinds}


def series_of(record: RunRecord, phase: str) -> list[ExtrapolatedSeries]:
    """The slices' series of one phase."""
    extrapolation = record.measurement.extrapolation
    assert extrapolation is not None
    return [series for series in extrapolation.series if series.phase == phase]


def test_the_planted_truth_comes_out(tmp_path: Path) -> None:
    """The rates of all 12 layers, from slices of a few, in decode at both depths, prefill and time to the first token."""
    truth = Truth()
    record = measured(Bench(root=tmp_path), request())

    assert record.complete
    assert record.basis == "extrapolated"
    first, second = record.measurement.decode
    assert (first.depth, second.depth) == (0, PROMPT)
    for series in (first, second):
        step_s = truth.step_s(whole("q8_0"), series.depth, 1)
        assert series.tokens_per_second is not None
        assert 1 / series.tokens_per_second.point == pytest.approx(step_s, rel=1e-3)
    prefill_s = truth.chunk_s(whole("q8_0"), PROMPT)
    assert record.prefill_tokens_per_second == pytest.approx(PROMPT / prefill_s, rel=1e-3)
    assert record.ttft_s == pytest.approx(prefill_s + truth.step_s(whole("q8_0"), PROMPT, 1), rel=1e-3)
    assert max(series.largest_residual or 0.0 for series in series_of(record, "decode")) < 0.01


def test_kinds_of_layers_have_times_of_their_own(tmp_path: Path) -> None:
    """Two types of layers with 8 and 5 ms: the whole comes out, though both types stand in every slice."""
    truth = Truth()
    record = measured(Bench(root=tmp_path), request(KINDS))

    extrapolation = record.measurement.extrapolation
    assert extrapolation is not None
    assert [kind.layers for kind in extrapolation.kinds] == [6, 6]
    assert record.decode_tokens_per_second == pytest.approx(1 / truth.step_s(whole(*KINDS), 0, 1), rel=0.02)


def test_a_record_of_slices_survives_and_decides(tmp_path: Path) -> None:
    """It is read back as it was and decides by its own numbers."""
    record = measured(Bench(root=tmp_path), request())

    again = record_from(document_of(record), source="run.json")

    assert to_json(again) == to_json(record)
    assert decide(single_stream_need(4), [evidence_from(again)]).verdict.verdict == CPU


def test_repetitions_of_slices_are_watched(tmp_path: Path) -> None:
    """Each repetition goes through all slices and has one reading; the busy ones are marked, and the record is read back with its quiet speed."""
    bench = Bench(root=tmp_path)
    watch = watch_of([True, False] * 3 + [False])
    bench.observer = lambda: observer_of(watch, bench.engine.clock.now_s)

    record = measured(bench, request())

    (first, *_), prefill = record.measurement.decode, record.measurement.prefill
    assert prefill is not None
    for rows, repetitions in ((first.step_s, first.repetitions), (prefill.chunk_s, prefill.repetitions)):
        assert len(rows) == len(repetitions) > 0
    marks = [one.disturbed for one in (*first.repetitions, *prefill.repetitions)]
    assert {True, False} <= set(marks)
    assert not any(one.windows for one in first.repetitions)
    assert first.quiet is not None
    assert first.quiet.marked == sum(one.disturbed is True for one in first.repetitions)
    assert len(record.contention.references) == 1
    assert to_json(record_from(document_of(record), source="run.json")) == to_json(record)


def test_slices_that_are_not_on_a_line_are_no_evidence(tmp_path: Path) -> None:
    """A cost that grows with the square of the layers: a warning with the residual, "undecided", and no verdict of a guard."""
    record = measured(Bench(root=tmp_path, truth=Truth(bend=0.002)), request())

    assert any("do not lie on a line" in warning for warning in record.warnings)
    assert decide(single_stream_need(0.01), [evidence_from(record)]).verdict.verdict == UNDECIDED
    guard = guard_floor(record, 0.01)
    assert guard.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("can_rewind", [True, False])
def test_steps_run_at_the_depth_that_the_record_says(tmp_path: Path, *, can_rewind: bool) -> None:
    """What is evaluated lies at the depth or a short drift beyond, whether or not a cache can be cut back; and never beside it."""
    bench = Bench(root=tmp_path, behaviour=FakeBehaviour(can_rewind=can_rewind), truth=Truth(depth_s=1e-5))
    record = measured(bench, request(prompt_tokens=256, depth=256, batch=3))

    deep = [series for series in record.measurement.decode if series.depth == 256]
    assert sorted(series.batch for series in deep) == [1, 3]
    for series in deep:
        assert series.tokens_per_second is not None
        seconds = 1 / series.tokens_per_second.point
        least = bench.truth.step_s(whole("q8_0"), 256, series.batch)
        most = bench.truth.step_s(whole("q8_0"), 256 + 72, series.batch)
        assert 0.999 * least <= seconds <= most


def test_sequences_decode_together(tmp_path: Path) -> None:
    """With ``batch`` 4 a second series holds the steps of four; the run's own figure stays that of one."""
    truth = Truth(depth_s=1e-4)
    record = measured(Bench(root=tmp_path, truth=truth), request(depth=PROMPT, batch=4))

    found = {(series.depth, series.batch): series.tokens_per_second for series in record.measurement.decode}
    four, one = found[PROMPT, 4], found[PROMPT, 1]
    assert four is not None
    assert one is not None
    assert 1 / four.point == pytest.approx(truth.step_s(whole("q8_0"), PROMPT + 2, 4), rel=0.02)
    assert 1 / one.point == pytest.approx(truth.step_s(whole("q8_0"), PROMPT + 2, 1), rel=0.02)
    assert record.decode_tokens_per_second == one.point


def test_a_cache_that_would_hold_the_slices_is_emptied_before_each_step(tmp_path: Path) -> None:
    """Slices smaller than the last-level cache: emptied once for every timed step; without such a cache never."""
    emptied: list[int] = []
    bench = Bench(root=tmp_path, facts=replace(FACTS, llc_bytes=64 * MIB), evictor=lambda: emptied.append(1))
    record = measured(bench, request())

    steps = sum(len(row) for series in series_of(record, "decode") for own in series.times_s for row in own)
    assert len(emptied) == steps
    emptied.clear()
    measured(replace(bench, root=tmp_path / "other", facts=FACTS), request())
    assert not emptied


def test_other_slices_empty_the_cache_where_they_are_large_enough(tmp_path: Path) -> None:
    """The smallest slice might be cached and the others read several times the cache: single steps in turn, nothing else reads."""
    emptied: list[int] = []
    asked = request()
    assert isinstance(asked.model, ShapeModel)
    design = short_design(asked.model.header)
    read = [shape_from_header(design.slice_header(plan)).streamed_bytes() for plan in design.plans]
    llc_bytes = round((sum(read) - max(read)) / (ENOUGH_TO_EMPTY * 1.01))
    assert min(read) < UNCACHED_MULTIPLE * llc_bytes
    bench = Bench(root=tmp_path, facts=replace(FACTS, llc_bytes=llc_bytes), evictor=lambda: emptied.append(1))

    record = measured(bench, asked)

    assert not emptied
    steps = [path for what, path, depth, _batch in bench.log if what == "step" and depth == 0]
    timed = steps[-len(record.measurement.decode[0].step_s) * len(design.plans) :]
    assert all(one != following for one, following in pairwise(timed))


def test_a_killed_run_keeps_what_it_measured_and_goes_on(tmp_path: Path) -> None:
    """It dies half-way; what it saved is a valid record, and resuming keeps those repetitions and adds others."""
    saved: list[RunRecord] = []

    def die(record: RunRecord) -> None:
        saved.append(record)
        if len(record.measurement.decode) > 0 and len(record.measurement.decode[0].step_s) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(Bench(root=tmp_path, save=die, jitter=0.02), request())
    partial = record_from(document_of(saved[-1]), source="partial")
    assert not partial.complete

    record = measured(Bench(root=tmp_path), request(), partial)

    assert record.complete
    assert len(series_of(record, "decode")[0].times_s[0]) > 2
    for phase in ("decode", "prefill"):
        for kept, all_of_it in zip(series_of(partial, phase), series_of(record, phase), strict=True):
            for own, more in zip(kept.times_s, all_of_it.times_s, strict=True):
                assert own
                assert more[: len(own)] == own
    record_from(document_of(record), source="resumed")


def test_what_a_warm_up_left_in_a_cache_is_no_depth_of_a_series(tmp_path: Path) -> None:
    """Resumed with only the empty cache left to decode: it is emptied of the warm-up first, so that no step is slower than before."""
    truth, asked = Truth(depth_s=1e-4), request(budget_s=600.0)
    record = measured(Bench(root=tmp_path, truth=truth), asked)
    extrapolation = record.measurement.extrapolation
    assert extrapolation is not None
    rest = tuple(series for series in extrapolation.series if (series.phase, series.depth) != ("decode", 0))
    measurement = replace(record.measurement, extrapolation=replace(extrapolation, series=rest))

    earlier = replace(record, complete=False, measurement=measurement)
    resumed = measured(Bench(root=tmp_path, truth=truth), asked, earlier)

    assert series_of(resumed, "decode")[0].depth == 0
    for own, again in zip(series_of(record, "decode")[0].times_s, series_of(resumed, "decode")[0].times_s, strict=True):
        assert [list(row) for row in again] == [pytest.approx(list(row)) for row in own]


def test_a_cache_that_cannot_be_cut_back_is_filled_again_before_it_drifts_far(tmp_path: Path) -> None:
    """Twenty repetitions of eight steps behind 256 tokens: no step runs deeper than the drift that is allowed and one turn."""
    bench = Bench(root=tmp_path, behaviour=FakeBehaviour(can_rewind=False))
    rule = StoppingRule(minimum=20, maximum=20)
    record = measured(bench, request(depth=256, budget_s=600.0, rule=rule))

    depths = [depth for what, _path, depth, _batch in bench.log if what == "step" and depth >= 256]
    assert len(record.measurement.decode[0].step_s) == 20
    assert 256 + WAKING_STEPS + STEPS_PER_TURN < max(depths) < 256 + DRIFT_TOKENS + WAKING_STEPS + STEPS_PER_TURN


@pytest.mark.parametrize("calls", [3, 10, 25])
def test_a_crash_leaves_a_record_that_can_be_read(tmp_path: Path, calls: int) -> None:
    """Whenever the engine dies, the last record that was saved is valid and says that it is not complete."""
    saved: list[RunRecord] = []
    bench = Bench(root=tmp_path, save=saved.append, behaviour=FakeBehaviour(crash_after_calls=calls))

    with pytest.raises(EngineCrashError):
        measured(bench, request())

    assert not record_from(document_of(saved[-1]), source="crashed").complete


def test_only_the_same_run_is_resumed(tmp_path: Path) -> None:
    """Other slices, another cache type or another batch: refused, as repetitions of different things are no sample."""
    partial = replace(measured(Bench(root=tmp_path), request()), complete=False)
    model, longer = toy_model(), Bench(root=tmp_path)

    with pytest.raises(UsageError, match="other slices"):
        longer.run(request(), plan_slices(model.header, 8 * model.header.tensor_bytes), partial)
    for changes in ({"type_k": "q8_0"}, {"batch": 2}, {"flash_attention": "off"}, {"n_ubatch": 256}):
        with pytest.raises(UsageError, match="another"):
            measured(Bench(root=tmp_path), request(**changes), partial)


def test_settings_describe_the_model_and_not_a_slice(tmp_path: Path) -> None:
    """No weights or cache of a slice among the settings; identity, bytes and kinds are those of the whole model."""
    header = toy_header()
    record = measured(Bench(root=tmp_path), request())

    assert record.model.file_bytes == header.file_bytes
    assert record.model.shape_sha256
    assert record.model.sha256 is None
    assert record.settings["weight_buffer_bytes"] is None
    model = toy_model(header)
    assert record.settings["kv_cache_bytes"] == model.shape.kv_cache_bytes(record.settings["n_ctx"], "f16", "f16")
    assert record.settings["use_mmap"] is False
    kinds = layer_kinds(header)
    extrapolation = record.measurement.extrapolation
    assert extrapolation is not None
    assert [(kind.layers, kind.layer_bytes) for kind in extrapolation.kinds] == [
        (len(kind.layers), kind.n_bytes) for kind in kinds
    ]


def test_a_model_that_does_not_fit_is_measured_and_the_verdict_names_memory(tmp_path: Path) -> None:
    """Slices fit where the model does not: its speed is told, with a warning, and the verdict says what it lacks."""
    header = toy_header()
    bench = Bench(root=tmp_path, facts=replace(FACTS, memory_usable_bytes=header.file_bytes // 2))
    record = measured(bench, request())

    assert any("does not fit here" in warning for warning in record.warnings)
    assert record.decode_tokens_per_second is not None
    verdict = decide(single_stream_need(4), [evidence_from(record)]).verdict
    assert verdict.verdict != CPU
    assert "memory" in verdict.reason.lower()


def test_a_budget_that_is_too_small_shortens_the_prompt_and_says_so(tmp_path: Path) -> None:
    """A prompt of 2048 tokens in 2 s: shortened, told, and its record holds the length that was read."""
    record = measured(Bench(root=tmp_path), request(prompt_tokens=2048, budget_s=2.0))

    assert record.measurement.prefill is not None
    assert record.measurement.prefill.prompt_tokens < 2048
    assert any("prompt was shortened from 2048" in warning for warning in record.warnings)


def test_small_models_are_run_whole(tmp_path: Path) -> None:
    """A toy would stay in a cache in slices: "auto" runs all of it, its figures are not called measured, and "slices" obeys."""
    bench = Bench(root=tmp_path)
    asked = request(slices=SliceChoice.AUTO)

    record = run_shape(asked, toy_model(), bench.around(), None)

    assert record.basis == "extrapolated"
    assert record.measurement.extrapolation is None
    assert record.model.shape_sha256
    assert record.decode_tokens_per_second == pytest.approx(1 / Truth().step_s(whole("q8_0"), 0, 1), rel=0.01)
    record_from(document_of(record), source="stand-in")
    sliced = run_shape(request(), toy_model(), Bench(root=tmp_path).around(), None)
    assert sliced.measurement.extrapolation is not None


def test_the_same_shape_has_the_same_identity_whole_and_in_slices(tmp_path: Path) -> None:
    """The stand-in and the slices are of one model, so their records can be compared; neither can resume the other."""
    stand_in = run_shape(request(slices=SliceChoice.WHOLE), toy_model(), Bench(root=tmp_path).around(), None)
    sliced = measured(Bench(root=tmp_path), request())

    assert stand_in.model.identity == sliced.model.identity
    with pytest.raises(UsageError, match="other slices"):
        measured(Bench(root=tmp_path), request(), replace(stand_in, complete=False))


def test_what_slices_cannot_have_is_refused(tmp_path: Path) -> None:
    """A prompt of words, a part of the layers on a GPU, no place to write, and less memory than the slices take."""
    around = Bench(root=tmp_path).around()
    model = toy_model()

    with pytest.raises(UsageError, match="--prompt"):
        run_shape(request(prompt="words"), model, around, None)
    with pytest.raises(UsageError, match="--gpu-layers"):
        run_shape(request(n_gpu_layers=3), model, around, None)
    with pytest.raises(UsageError, match="write slices"):
        run_shape(request(), model, replace(around, slices=None), None)
    tiny = FakeMachine(facts=replace(FACTS, memory_usable_bytes=64 * KIB))
    with pytest.raises(UsageError, match="even its slices"):
        run_shape(request(), model, replace(around, machine=tiny), None)


def test_noise_gives_an_interval_around_the_truth(tmp_path: Path) -> None:
    """Two percent of one-sided noise in every step: the interval is there, and the rate within 10 % of what was planted."""
    record = measured(Bench(root=tmp_path, jitter=0.02), request())

    estimate = record.measurement.decode[0].tokens_per_second
    assert estimate is not None
    assert estimate.interval is not None
    assert estimate.point == pytest.approx(1 / Truth().step_s(whole("q8_0"), 0, 1), rel=0.1)
