"""Distances on the real sample model: exactly zero against itself, and rounding alone as the noise floor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from helpers.sample import require_sample_model
from suffice.errors import EngineCrashError
from suffice.loaders.chat_template import ChatTemplate, read_chat_template
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_client import LlamaCppTextEngine
from suffice.measure.prompting import Prompting
from suffice.model.items import Item, Message, Role, ScoreKind, ScoreRule
from suffice.quants.distances import DistanceRun, compared, measure_distances_of
from suffice.quants.texts import documents_of

if TYPE_CHECKING:
    from suffice.measure.engine.text_seam import TextSession

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(n_ctx=512, n_threads=1, n_threads_batch=1, n_batch=64, n_ubatch=64)
ITEMS = tuple(
    Item(
        id=str(number),
        line=number,
        rule=ScoreRule(kind=ScoreKind.CONTAINS),
        messages=(Message(role=Role.USER, content=f"What is the capital of {country}? Answer with one word."),),
        answers=(city,),
    )
    for number, (country, city) in enumerate([("France", "Paris"), ("Italy", "Rome")])
)


@pytest.fixture(params=["llama-cpp-python", "xllamacpp"])
def engine(request: pytest.FixtureRequest) -> LlamaCppTextEngine:
    """Each engine that is installed."""
    if request.param not in {choice.name for choice in available_engines()}:
        pytest.skip(f"{request.param} is not installed")
    return LlamaCppTextEngine(choose_library(prefer=request.param))


def test_a_real_model_against_itself(engine: LlamaCppTextEngine) -> None:
    """With the same settings every figure is that of no difference, exactly; with another batch, no more than what rounding does.

    The documents are the items through the model's template, with their right answers, which the model finds likely.
    """
    path = require_sample_model()
    source = read_chat_template(path)
    assert source is not None

    def prompting(session: TextSession) -> Prompting:
        vocabulary = session.facts.vocabulary
        template = ChatTemplate(
            name=path.name,
            source=source,
            bos_text=vocabulary.bos_text,
            eos_text=vocabulary.eos_text,
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
        return Prompting(session, template)

    model = open_model_file(path)
    reference, same = (compared(name, model, SETTINGS, identity="the file") for name in ("reference", "same"))
    run = DistanceRun(engine=engine, settings=SETTINGS, texts=documents_of(ITEMS), prompting=prompting)
    try:
        found = measure_distances_of(run, reference, [same])
    except EngineCrashError as error:
        if "SIGILL" not in str(error):
            raise
        pytest.skip(f"this build does not run on this machine: {error}")
    assert found.notes == ()
    floor, itself = found.distances
    assert (floor.is_self, itself.is_self) == (True, False)
    assert (itself.largest, itself.p99.value) == (0.0, 0.0)
    assert [one.name for one in itself.documents] == [f"item {number}" for number in range(2)]
    for figures in itself.documents:
        assert figures.divergence == 0.0
        assert figures.same_top == figures.tokens
        assert figures.reference_loss == figures.candidate_loss
        assert 0.2 < figures.reference_loss / figures.tokens < 8
    assert 0 <= floor.largest < 0.5
