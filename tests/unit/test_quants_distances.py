"""Distances of candidates on the user's text: in step or in groups, what is left out and why, what is kept, the noise floor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suffice.errors import EngineCrashError, EngineError, UsageError
from suffice.measure.engine.fake_text import FakeModel, FakeTextEngine
from suffice.measure.engine.seam import EngineSettings
from suffice.quants.distances import Compared, DistanceRun, distance_of, measure_distances_of
from suffice.quants.texts import TextDocument, TokenizedTexts, UserTexts, tokenize_texts

if TYPE_CHECKING:
    from suffice.model.quants import Distance

SETTINGS = EngineSettings(n_ctx=512, n_threads=2, n_threads_batch=2)
MODELS = {
    "ref.gguf": FakeModel(),
    "near.gguf": FakeModel(noise=0.1),
    "far.gguf": FakeModel(noise=0.5),
    "other.gguf": FakeModel(other_vocabulary=True),
    "dies.gguf": FakeModel(noise=0.1, crash_after_requests=6),
}
TEXTS = UserTexts(
    documents=tuple(TextDocument(name=f"d{n}", text=f"Document {n} says {'so ' * n}much.") for n in range(6))
)
NEEDED_BYTES = 100.0


def model(name: str) -> Compared:
    """A file of the comparison."""
    return Compared(name=name, path=Path(f"{name}.gguf"), needed_bytes=NEEDED_BYTES, identity=f"hash of {name}")


def run(**changes: object) -> DistanceRun:
    """A run with the fake engine and endless memory."""
    given = {
        "engine": FakeTextEngine(models=MODELS), "settings": SETTINGS, "texts": TEXTS, "usable_bytes": lambda: 1e9, **changes,
    }  # fmt: skip
    return DistanceRun(**given)  # type: ignore[arg-type]


def tokens() -> TokenizedTexts:
    """The documents in the fake's tokens."""
    return tokenize_texts(TEXTS, FakeTextEngine().open_text(Path("ref.gguf"), SETTINGS))


def test_what_is_kept_adds_up_to_the_tail_that_stands_beside_it() -> None:
    """Every token but the first of each document is scored once; the largest bounds every mean."""
    engine = FakeTextEngine(models=MODELS)
    with (
        engine.open_text(Path("ref.gguf"), SETTINGS) as reference,
        engine.open_text(Path("far.gguf"), SETTINGS) as far,
    ):
        found = distance_of(reference, far, tokens(), name="far")
    assert [(one.name, one.tokens) for one in found.documents] == [
        (name, len(read) - 1) for name, read in tokens().segments
    ]
    assert all(0 < one.divergence < found.largest * one.tokens for one in found.documents)
    assert all(0 <= one.same_top <= one.tokens for one in found.documents)
    assert any(one.reference_loss != one.candidate_loss for one in found.documents)
    assert 0 < found.p99.value <= found.largest
    assert found.p99.low is None
    assert found.p99.shortage == "not enough items"


def test_a_session_against_itself_is_exactly_zero() -> None:
    """Not nearly: no divergence, equal tops, equal losses."""
    engine = FakeTextEngine(models=MODELS)
    with engine.open_text(Path("ref.gguf"), SETTINGS) as one, engine.open_text(Path("ref.gguf"), SETTINGS) as same:
        found = distance_of(one, same, tokens(), name="ref", is_self=True)
    assert found.is_self
    assert (found.largest, found.p99.value) == (0.0, 0.0)
    for figures in found.documents:
        assert figures.divergence == 0.0
        assert figures.same_top == figures.tokens
        assert figures.reference_loss == figures.candidate_loss


def test_in_step_and_one_after_the_other_give_the_same() -> None:
    """However many fit into memory together, the figures of each candidate are the same to the last bit; the nearer one is nearer."""
    names = ("near", "far")
    together = run()
    found = measure_distances_of(together, model("ref"), [model(name) for name in names])
    alone = run(usable_bytes=lambda: 2 * NEEDED_BYTES)
    parted = measure_distances_of(alone, model("ref"), [model(name) for name in names])
    assert found == parted
    assert [(one.candidate, one.is_self) for one in found.distances] == [("ref", True), ("near", False), ("far", False)]
    sums = [sum(figures.divergence for figures in one.documents) for one in found.distances]
    assert sums == sorted(sums)
    assert sums[0] == 0.0  # the fake does not round
    assert found.notes == ()


def test_what_does_not_fit_is_left_out_with_its_size() -> None:
    """A candidate too large beside the reference is named with what it needs; the others are measured."""
    large = replace(model("far"), needed_bytes=2e9)
    found = measure_distances_of(run(), model("ref"), [large, model("near")])
    assert [one.candidate for one in found.distances] == ["ref", "near"]
    assert found.notes == (
        "the distance of far was left out: it needs 1.86 GiB, and beside ref 953.67 MiB can be used",
    )


def test_a_reference_that_does_not_fit_ends_nothing_else() -> None:
    """There are no distances, and one note that says why; nothing is opened."""
    engine = FakeTextEngine(models=MODELS)
    found = measure_distances_of(run(engine=engine, usable_bytes=lambda: 1.0), model("ref"), [model("near")])
    assert found.distances == ()
    assert "distances were left out" in found.notes[0]
    assert engine.opened == 0


def test_another_vocabulary_and_a_crash_leave_the_others_alone() -> None:
    """Both are named with the reason, and the third candidate has exactly the distance that it has without them."""
    names = ("other", "dies", "far")
    found = measure_distances_of(run(), model("ref"), [model(name) for name in names])
    assert [one.candidate for one in found.distances] == ["ref", "far"]
    assert len(found.notes) == 2
    assert "other was left out: the two models have different vocabularies" in found.notes[0]
    assert "dies was left out: the engine's process died of SIGSEGV" in found.notes[1]
    alone = measure_distances_of(run(noise_floor=False), model("ref"), [model("far")])
    assert found.distances[1:] == alone.distances


def test_the_two_errors_of_a_single_pair() -> None:
    """Between two open sessions they are raised, as there are no others to go on with."""
    engine = FakeTextEngine(models=MODELS)
    with engine.open_text(Path("ref.gguf"), SETTINGS) as reference:
        for name, error in (("other.gguf", UsageError), ("dies.gguf", EngineCrashError)):
            with engine.open_text(Path(name), SETTINGS) as session, pytest.raises(error):
                distance_of(reference, session, tokens(), name=name)


def test_a_reference_that_dies_is_an_error() -> None:
    """Without it nothing can be said of any candidate."""
    with pytest.raises(EngineError, match="SIGSEGV"):
        measure_distances_of(run(), model("dies"), [model("near")])


def test_what_was_kept_is_not_measured_again() -> None:
    """The same text and settings: taken over as it is, no session opened for it. Another text: measured again."""
    saved: list[Distance] = []
    first = measure_distances_of(run(save=saved.append), model("ref"), [model("near")])
    assert tuple(saved) == first.distances
    engine = FakeTextEngine(models=MODELS)
    second = measure_distances_of(run(engine=engine), model("ref"), [model("near"), model("far")], kept=saved)
    assert engine.opened == 2  # the reference, and the one that is new
    assert second.distances[:2] == first.distances
    shorter = run(engine=engine, texts=UserTexts(documents=TEXTS.documents[:3]))
    third = measure_distances_of(shorter, model("ref"), [model("near")], kept=saved)
    assert engine.opened == 5
    assert len(third.distances[1].documents) == 3


def test_progress_names_tokens_candidates_and_time_left() -> None:
    """The last line has all tokens; once it is known how fast it goes, the rest is foretold."""
    said: list[str] = []
    seconds = iter(range(0, 1_000, 3))
    job = run(progress=said.append, clock=lambda: float(next(seconds)))
    measure_distances_of(job, model("ref"), [model("near"), model("far")])
    total = tokens().tokens
    assert said[0] == f"distances: {total:,} tokens of 6 documents are read"
    assert "(near, far), about" in said[1]
    assert not any("." in line or "ms left" in line for line in said)
    assert said[-1] == f"distances: {total:,} of {total:,} tokens (near, far)"


def test_settings_say_what_decides_a_distance() -> None:
    """Text, context, batch, threads and engine; of the noise floor what was different."""
    found = measure_distances_of(run(), model("ref"), [model("near")])
    floor, near = (one.settings for one in found.distances)
    assert near["text_sha256"] == tokens().sha256
    assert (near["n_ctx"], near["n_batch"], near["n_threads"]) == (256, 512, 2)
    assert (floor["other_n_batch"], floor["other_n_threads"]) == (32, 1)
    assert "other_n_batch" not in near
