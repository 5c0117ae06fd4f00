"""Quality in a verdict: graded from its range like everything else, and named as not judged where nobody compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.records import evidence
from suffice.decide import words
from suffice.decide.advice import settle_sentence
from suffice.decide.constraints import constraints_for
from suffice.decide.quality import KEPT_UNIT, Judged, QualityEvidence, of_the_reference
from suffice.decide.quantity import Quantity
from suffice.decide.requantize import USUAL_RECIPES, quants_command, recipe_for, smaller_recipe
from suffice.decide.verdict import Grade, decide_machine, plain_grade
from suffice.decide.wording import format_value, value_texts
from suffice.model.basis import Basis
from suffice.model.demand import single_stream_need

DEMAND = replace(single_stream_need(8), quality_floor=0.9, quality_max_loss=0.01)


def _quantity(low: float, point: float, high: float) -> Quantity:
    return Quantity(point=point, low=low, high=high, basis=Basis.MEASURED)


def _evidence(
    *, kept: bool | None, score: bool | None = True, mean: tuple[float, float, float] = (0.91, 0.95, 0.97)
) -> QualityEvidence:
    return QualityEvidence(
        score=Judged(quantity=_quantity(*mean), reached=score),
        kept=Judged(quantity=_quantity(0.97, 0.98, 0.99), reached=kept),
        floor=0.9,
        max_loss=0.01,
        source="answers.json, 400 items",
    )


@pytest.mark.parametrize(("reached", "grade"), [(True, Grade.ENOUGH), (False, Grade.NOT_ENOUGH), (None, Grade.OPEN)])
def test_quality_is_graded_by_what_the_comparison_decided(*, reached: bool | None, grade: Grade) -> None:
    """Not by the range alone: the comparison has corrected for the number of candidates."""
    found = constraints_for(DEMAND, replace(evidence(decode=20), quality=_evidence(kept=reached)))

    assert [plain_grade(one) for one in found if one.name == "quality_kept"] == [grade]
    assert decide_machine(DEMAND, replace(evidence(decode=20), quality=_evidence(kept=reached))).grade is grade


def test_the_reference_keeps_everything() -> None:
    """Against itself a model loses nothing, whatever the number of items."""
    score = Judged(quantity=_quantity(0.91, 0.95, 0.97), reached=True)
    quality = of_the_reference(score, 0.9, 0.01, "s")

    assert decide_machine(DEMAND, replace(evidence(decode=20), quality=quality)).verdict == words.CPU


@pytest.mark.parametrize("decode", [20, 2])
def test_a_model_that_answers_badly_is_no_case_for_a_gpu(decode: float) -> None:
    """A GPU runs the same model: whatever the speed here, the answer is another model, and the reason says why."""
    quality = _evidence(kept=True, score=False, mean=(0.7, 0.75, 0.8))
    verdict = decide_machine(DEMAND, replace(evidence(decode=decode), quality=quality))

    assert verdict.verdict == words.UNDECIDED
    assert "75.00 % (70.00 % to 80.00 %, measured) against at least 90.00 %" in verdict.reason
    assert "No machine changes what this model answers." in verdict.reason
    assert (verdict.binding == "quality_floor") is (decode == 20)


def test_a_quality_that_is_open_asks_for_items() -> None:
    """Speed is enough and quality not shown: undecided, and more items are what settles it."""
    verdict = decide_machine(DEMAND, replace(evidence(decode=20), quality=_evidence(kept=None)))

    assert verdict.verdict == words.UNDECIDED
    assert "more items" in (verdict.settle or "")


def test_a_comparison_by_other_rules_is_refused() -> None:
    """A loss of one point that was allowed says nothing of half a point."""
    with pytest.raises(ValueError, match="another quality"):
        constraints_for(replace(DEMAND, quality_max_loss=0.005), replace(evidence(), quality=_evidence(kept=True)))


def test_without_a_comparison_quality_is_shown_and_does_not_decide() -> None:
    """A floor that nobody measured is named in the reason, with the command that measures it."""
    verdict = decide_machine(DEMAND, evidence(decode=20))
    notes = [item.constraint.note for item in verdict.constraints if item.constraint.name.startswith("quality")]

    assert verdict.grade is Grade.ENOUGH
    assert "Not judged here: quality, score against the reference's." in verdict.reason
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
    """To recheck after quantization, it names the command, with a file name that a shell takes as one word."""
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


def test_a_loss_is_told_in_points() -> None:
    """A score is no share of the reference's: 0.98 is two points below it, and the demand allows one."""
    verdict = decide_machine(DEMAND, replace(evidence(decode=20), quality=_evidence(kept=False)))

    assert (
        "score against the reference's -2 points (-3 points to -1 point, measured) against at least -1 point"
        in verdict.reason
    )
    assert format_value(1.0, KEPT_UNIT) == "0 points"
    assert value_texts(0.99, 0.9899999, KEPT_UNIT) == ("-1.000000 points", "-1.000010 points")


def test_a_quality_that_is_shown_does_not_bind_before_a_speed() -> None:
    """A score on the reference's is 1.01 of what is asked, and no tighter than twice the speed: the reason names the speed."""
    verdict = decide_machine(DEMAND, replace(evidence(decode=20), quality=_evidence(kept=True)))

    assert verdict.verdict == words.CPU
    assert verdict.binding == "decode_tokens_per_second"
