"""Runs on slices that are interrupted, run mixtures of experts, follow advice, or have too few layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import document_of
from helpers.slice_runs import N_LAYER, Bench, Truth, short_design, toy_header, toy_model
from helpers.slices import tensor
from suffice.errors import ModelFileError, OutputError, RecordError, UsageError
from suffice.loaders.shape_model import ShapeModel
from suffice.measure.engine.fake import FakeBehaviour
from suffice.measure.request import RunRequest, SliceChoice
from suffice.measure.shape_run import run_shape
from suffice.measure.slice_run import shortening_words
from suffice.model.slice_plan import plan_again
from suffice.records.store import record_from

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader
    from suffice.records.schema import ExtrapolatedSeries, RunRecord

PROMPT = 64
LAYERS = {"q8_0": N_LAYER}


def request(header: GgufHeader | None = None, **changes: Any) -> RunRequest:  # noqa: ANN401  # fields of the request
    """A run of the toy in slices."""
    asked = RunRequest(
        model=toy_model(header), slices=SliceChoice.SLICES, prompt_tokens=PROMPT, threads=2, flash_attention="on"
    )
    return replace(asked, **changes)


def measured(bench: Bench, asked: RunRequest, earlier: RunRecord | None = None) -> RunRecord:
    """A run on slices that are much shorter than the model."""
    assert isinstance(asked.model, ShapeModel)
    return bench.run(asked, short_design(asked.model.header), earlier)


def all_series(record: RunRecord) -> dict[tuple[str, int, int], ExtrapolatedSeries]:
    """The slices' series by what they measured."""
    extrapolation = record.measurement.extrapolation
    assert extrapolation is not None
    return {(series.phase, series.depth, series.batch): series for series in extrapolation.series}


def keeps(before: RunRecord | None, after: RunRecord) -> bool:
    """Whether each slice's repetitions begin with those of the earlier part."""
    if before is None:
        return True
    later = all_series(after)
    return all(
        later[key].times_s[index][: len(own)] == own
        for key, series in all_series(before).items()
        for index, own in enumerate(series.times_s)
    )


def killed(bench: Bench, asked: RunRequest, earlier: RunRecord | None, die_after: int) -> RunRecord:
    """What is on disk when a run is killed after so many saves."""
    saved: list[RunRecord] = []

    def save(record: RunRecord) -> None:
        saved.append(record)
        if len(saved) > die_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(replace(bench, save=save), asked, earlier)
    return record_from(document_of(saved[-1]), source="partial")


@pytest.mark.parametrize("first", [2, 5, 9])
@pytest.mark.parametrize("second", [1, 7])
@pytest.mark.parametrize("depth", [0, 2 * PROMPT])
def test_killed_twice_anywhere(tmp_path: Path, first: int, second: int, depth: int) -> None:
    """After any save, with flash attention on "auto", before or behind the prompt: no repetition, length or setting is lost."""
    bench = Bench(root=tmp_path)
    asked = request(flash_attention="auto", depth=depth, batch=2)
    once = killed(bench, asked, None, first)
    twice = killed(bench, asked, once, second)

    record = measured(bench, asked, twice)

    assert keeps(once, twice)
    assert keeps(twice, record)
    assert record.complete
    other = PROMPT if depth == 0 else 0
    assert [(s.depth, s.batch) for s in record.measurement.decode] == [(depth, 1), (other, 1), (depth, 2)]
    assert record.decode_tokens_per_second == pytest.approx(1 / Truth().step_s(LAYERS, depth + 2, 1), rel=1e-2)
    assert record.settings["asked"]["flash_attention"] == "auto"
    assert "attention_probe" in record.settings
    record_from(document_of(record), source="resumed")


def test_a_cache_that_a_warm_up_filled_is_emptied(tmp_path: Path) -> None:
    """A resumed run that has all but the steps at depth 0 has nothing else that would empty the caches before it makes them."""
    bench = Bench(root=tmp_path, truth=Truth(depth_s=1e-3))
    first = measured(bench, request())
    assert first.measurement.extrapolation is not None
    others = tuple(series for key, series in all_series(first).items() if key != ("decode", 0, 1))
    shallow, deep = first.measurement.decode
    measurement = replace(
        first.measurement,
        decode=(replace(shallow, tokens_per_second=None, step_s=(), stopped=None), deep),
        extrapolation=replace(first.measurement.extrapolation, series=others),
    )
    partial = replace(first, complete=False, measurement=measurement, decode_tokens_per_second=None)

    again = measured(bench, request(), partial)

    assert again.decode_tokens_per_second == pytest.approx(first.decode_tokens_per_second, rel=1e-6)


def test_a_run_without_repacked_weights_goes_on_without_them(tmp_path: Path) -> None:
    """Where the engine had aborted with repacked weights, the resumed part must run as the first did."""
    partial = killed(Bench(root=tmp_path), request(), None, 7)
    asked = {**partial.settings["asked"], "use_extra_buffers": False}
    partial = replace(partial, settings={**partial.settings, "use_extra_buffers": False, "asked": asked})

    record = measured(Bench(root=tmp_path), request(), partial)

    assert record.settings["use_extra_buffers"] is False


def moe_header() -> GgufHeader:
    """The toy with 8 experts in each layer, of which a token uses 2."""
    plain = toy_header()
    experts = [tensor(f"blk.{layer}.ffn_up_exps.weight", (64, 128, 8), "q8_0") for layer in range(N_LAYER)]
    facts = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    header = replace(plain, metadata={**plain.metadata, **facts}, tensors=(*plain.tensors, *experts))
    return replace(header, file_bytes=header.tensor_bytes)


def test_experts_are_counted(tmp_path: Path) -> None:
    """2 of 8 experts: one sequence touches exactly 2, four about 8 (1 - 0.75^4), in a session that is not timed."""
    bench = Bench(root=tmp_path, behaviour=FakeBehaviour(n_expert=8, n_expert_used=2))
    record = measured(bench, request(moe_header(), batch=4))

    assert record.measurement.extrapolation is not None
    one, four = record.measurement.extrapolation.experts
    assert (one.batch, one.distinct_mean) == (1, 2)
    assert one.expected == pytest.approx(2)
    assert (four.batch, four.n_expert) == (4, 8)
    assert four.expected == pytest.approx(8 * (1 - 0.75**4))
    assert four.distinct_mean == pytest.approx(four.expected, rel=0.3)
    record_from(document_of(record), source="experts")


@pytest.mark.parametrize(("dense", "n_expert"), [(False, 0), (True, 8)])
def test_experts_that_cannot_be_counted_are_not_invented(tmp_path: Path, *, dense: bool, n_expert: int) -> None:
    """An engine that cannot tell leaves the list empty, and of a dense model nothing is asked."""
    bench = Bench(root=tmp_path, behaviour=FakeBehaviour(n_expert=n_expert))

    record = measured(bench, request(None if dense else moe_header()))

    assert record.measurement.extrapolation is not None
    assert record.measurement.extrapolation.experts == ()


@pytest.mark.parametrize("what", ["prompt", "depth"])
def test_the_advised_budget_is_enough(tmp_path: Path, what: str) -> None:
    """Who follows the warning gets the whole length."""
    lengths: dict[str, Any] = {"prompt_tokens": 2048} if what == "prompt" else {"depth": 2048}
    short = measured(Bench(root=tmp_path), request(budget_s=2.0, **lengths))
    advice = next(warning for warning in short.warnings if f"the {what} was shortened" in warning)
    seconds = float(advice.rpartition("--budget ")[2].removesuffix("s"))

    record = measured(Bench(root=tmp_path), request(budget_s=seconds, **lengths))

    assert record.measurement.prefill is not None
    found = record.measurement.prefill.prompt_tokens if what == "prompt" else record.measurement.decode[0].depth
    assert found == 2048


def test_models_of_two_layers_are_run_whole(tmp_path: Path) -> None:
    """No three lengths can be made of them: "auto" takes the whole, here too large for the cache; "slices" is refused by name."""
    header = toy_header(2, n_vocab=2_000_000)
    around = Bench(root=tmp_path).around()

    with pytest.raises(OutputError, match="the cache may take 256"):
        run_shape(request(header, slices=SliceChoice.AUTO), toy_model(header), around, None)
    with pytest.raises(ModelFileError, match="2 different lengths"):
        run_shape(request(header), toy_model(header), around, None)


def test_a_second_series_of_the_same_depth_is_refused(tmp_path: Path) -> None:
    """A forged series beside the true one would otherwise pass as covered by the true one's slices."""
    document = document_of(measured(Bench(root=tmp_path), request()))
    decode = document["measurement"]["decode"]
    decode.append({**decode[0], "step_s": [[0.001]], "tokens_per_second": None})

    with pytest.raises(RecordError, match="not those that its slices give"):
        record_from(document, source="forged")


def test_a_run_is_resumed_with_its_slices_however_much_memory_is_free_now(tmp_path: Path) -> None:
    """How long slices are depends on what is free when they are planned; an interrupted run keeps those that it had."""
    saved: list[RunRecord] = []
    header = toy_header()
    bench = Bench(root=tmp_path, save=saved.append)
    model = toy_model(header)
    asked = request(header)
    design = short_design(header)
    bench.run(asked, design)
    cut = next(record for record in saved if record.measurement.prefill and record.measurement.prefill.chunk_s)

    full = run_shape(asked, model, bench.around(), replace(cut, complete=False))

    extrapolation = full.measurement.extrapolation
    assert extrapolation is not None
    assert [one.layers for one in extrapolation.slices] == [len(plan.layers) for plan in design.plans]
    assert full.complete


@pytest.mark.parametrize("made", [[(0, 100)], [(99, 100)], [(2, 0)], [(2, 10**9)]])
def test_slices_that_a_model_cannot_have_are_not_made_again(made: list[tuple[int, int]]) -> None:
    """A record is a file that anyone may edit."""
    with pytest.raises(UsageError, match="does not have"):
        plan_again(toy_header(), made)


def test_a_resumed_run_still_says_that_weights_were_not_repacked(tmp_path: Path) -> None:
    """The first part met an engine that aborts; the second goes on without repacking and says so, too."""
    saved: list[RunRecord] = []
    bench = Bench(root=tmp_path, save=saved.append)
    asked = request()
    measured(bench, asked)
    cut = next(record for record in saved if record.measurement.prefill and record.measurement.prefill.chunk_s)
    settings = {**cut.settings, "asked": {**cut.settings["asked"], "use_extra_buffers": False}}

    full = measured(bench, asked, replace(cut, complete=False, settings=settings))

    assert any("without repacking" in warning for warning in full.warnings)


def test_a_budget_that_suffices_is_not_asked_for_again() -> None:
    """80 s are advised to who gave 20; who gave 80 hears nothing of 80, or of 82, which is the same estimate once more."""
    assert shortening_words("prompt", 2048, 512, 79.2, 20.0).endswith(
        "to fit the budget of 20 s; all of it takes about --budget 80s"
    )
    for needed_s in (60.0, 80.0, 82.0):
        words = shortening_words("prompt", 2048, 512, needed_s, 80.0)
        assert "--budget" not in words
        assert "512 tokens instead of 2048" in words
