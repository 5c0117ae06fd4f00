"""Quality in a verdict: graded from its range like everything else, and named as not judged where nobody compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.records import evidence
from suffice.decide.advice import settle_sentence
from suffice.decide.constraints import constraints_for
from suffice.decide.quality import QualityEvidence, all_kept
from suffice.decide.quantity import Quantity
from suffice.decide.requantize import USUAL_RECIPES, quants_command, recipe_for, smaller_recipe
from suffice.decide.verdict import Grade, decide_machine, plain_grade
from suffice.decide.wording import format_value, value_texts
from suffice.model.basis import Basis
from suffice.model.demand import single_stream_need

DEMAND = replace(single_stream_need(8), quality_floor=0.9, quality_max_loss=0.01)


def _quantity(low: float, point: float, high: float) -> Quantity:
    return Quantity(point=point, low=low, high=high, basis=Basis.MEASURED)


def _graded(quality: QualityEvidence | None) -> dict[str, Grade]:
    machine = replace(evidence(decode=20), quality=quality)
    found = constraints_for(DEMAND, machine)
    return {one.name: plain_grade(one) for one in found if one.name.startswith("quality") and one.judged}


@pytest.mark.parametrize(
    ("low", "high", "grade"),
    [
        (0.995, 1.002, Grade.ENOUGH),  # loses at most half a point
        (0.99, 1.0, Grade.ENOUGH),  # exactly the one point that may be lost
        (0.95, 0.98, Grade.NOT_ENOUGH),  # two points at least
        (0.98, 1.0, Grade.OPEN),  # both are possible
    ],
)
def test_a_loss_is_graded_by_its_range(low: float, high: float, grade: Grade) -> None:
    """Enough where the low end keeps what must be kept, not enough where the high end does not, open between."""
    kept = _quantity(low, (low + high) / 2, high)

    assert _graded(QualityEvidence(score=None, kept=kept, source="s"))["quality_kept"] is grade


def test_the_reference_keeps_everything() -> None:
    """Against itself a model loses nothing, whatever the number of items."""
    quality = QualityEvidence(score=_quantity(0.91, 0.95, 0.97), kept=all_kept(), source="s")

    assert _graded(quality) == {"quality_floor": Grade.ENOUGH, "quality_kept": Grade.ENOUGH}


def test_a_floor_that_is_missed_makes_the_machine_not_enough() -> None:
    """Speed alone does not make a machine enough for a model that answers wrongly, and the reason says what lacks."""
    quality = QualityEvidence(score=_quantity(0.7, 0.75, 0.8), kept=all_kept(), source="answers.json, 400 items")
    verdict = decide_machine(DEMAND, replace(evidence(decode=20), quality=quality))

    assert verdict.grade is Grade.NOT_ENOUGH
    assert verdict.binding == "quality_floor"
    assert "75.00 % (70.00 % to 80.00 %, measured) against at least 90.00 %" in verdict.reason


def test_without_a_comparison_quality_is_shown_and_does_not_decide() -> None:
    """A floor that nobody measured is named in the reason, with the command that measures it."""
    verdict = decide_machine(DEMAND, evidence(decode=20))
    notes = [item.constraint.note for item in verdict.constraints if item.constraint.name.startswith("quality")]

    assert verdict.grade is Grade.ENOUGH
    assert "Not judged here: quality, quality kept of the reference's." in verdict.reason
    assert notes == ["not measured: `suffice quants` does, on your own items"] * 2


def test_unequal_shares_never_look_equal() -> None:
    """0.899999 against 0.9 is shown with digits that tell them apart."""
    assert format_value(0.908, "share") == "90.80 %"
    required, available = value_texts(0.9, 0.8999999, "share")

    assert required != available


def test_the_recipe_that_gives_the_speed() -> None:
    """The most bits that are few enough: 16 bits over 1.8 leaves room for q8_0, over 2.3 for q6_k, over 9 for none."""
    whole = replace(evidence(), bits_per_weight=16.0)
    names = {factor: recipe_for(whole, factor) for factor in (1.8, 2.3, 3.0, 9.0)}

    assert names == {1.8: "q8_0", 2.3: "q6_k", 3.0: "q4_k_m", 9.0: None}
    assert recipe_for(replace(evidence(), bits_per_weight=None), 1.5) is None


@pytest.mark.parametrize(("name", "bits"), USUAL_RECIPES)
def test_the_next_smaller_recipe_has_fewer_bits(name: str, bits: float) -> None:
    """Whatever the model has, what is proposed is smaller, and the smallest has nothing below it."""
    found = smaller_recipe(replace(evidence(), bits_per_weight=bits))
    order = [recipe for recipe, _ in USUAL_RECIPES]

    assert (found is None) if name == order[-1] else order.index(str(found)) > order.index(name)


def test_a_thin_margin_comes_with_the_command() -> None:
    """ "Recheck after quantization" names the command, with a file name that a shell takes as one word."""
    machine = replace(evidence(decode=9), bits_per_weight=16.0, model_file="my model.gguf")
    verdict = decide_machine(single_stream_need(8), machine)

    assert verdict.grade is Grade.THIN
    assert verdict.settle is not None
    assert "`suffice quants 'my model.gguf' --make q8_0 --items items.jsonl --demand demand.toml`" in verdict.settle
    assert (
        quants_command(replace(machine, model_file="it's.gguf"), "q8_0").split(" --")[0]
        == "suffice quants 'it'\"'\"'s.gguf'"
    )


def test_a_gpu_is_not_told_to_quantize_here() -> None:
    """The command measures on this machine's CPU, which says nothing of a GPU."""
    machine = replace(evidence(decode=9), bits_per_weight=16.0, is_gpu=True)
    (decode,) = [
        one for one in constraints_for(single_stream_need(8), machine) if one.name == "decode_tokens_per_second"
    ]

    assert "suffice quants" not in (settle_sentence("thin", decode, machine) or "")
