"""Curves of models on machines that are not at hand."""

from __future__ import annotations

import pytest

from suffice.loaders.reference import resolve_model
from suffice.model.basis import Basis
from suffice.model.ceiling import Workload, ceiling_of_model
from suffice.model.roofline import Roofs
from suffice.serving.curve import Reached
from suffice.serving.model_curve import Reach, curve_of_model

ROOFS = Roofs(bandwidth_bytes_per_s=40e9, peak_flop_per_s=2e12)
LLAMA = resolve_model("llama-3.1-8b:q4_k_m").shape
MIXTRAL = resolve_model("mixtral-8x7b:q4_k_m").shape


@pytest.mark.parametrize(("batch", "depth"), [(1, 0), (8, 1024), (32, 8192)])
def test_decode_steps_are_those_of_the_ceiling(batch: int, depth: int) -> None:
    """At each batch and depth of the grid a step of the curve gives the rate of `suffice ceiling`."""
    for shape in (LLAMA, MIXTRAL):
        curve = curve_of_model(shape, ROOFS, Reach())
        ceiling = ceiling_of_model(shape, ROOFS, Workload(batch=batch, depth=depth))

        assert batch / curve.decode_s(batch, depth) == pytest.approx(ceiling.decode_tokens_per_second)
        assert curve.basis is Basis.CEILING


def test_a_prompt_takes_its_operations() -> None:
    """A chunk of 512 tokens of an 8B model is bound by compute here, more so at depth."""
    curve = curve_of_model(LLAMA, ROOFS, Reach())
    flop = LLAMA.prefill_flops(512)
    assert flop is not None

    assert curve.prefill_s(512) == pytest.approx(flop / 2e12)
    assert curve.prefill_s(512, 4096) > curve.prefill_s(512)


def test_a_share_of_the_ceiling_takes_longer() -> None:
    """Half of the decode ceiling is twice the time of a step; prefill has a share of its own."""
    full, half = (curve_of_model(LLAMA, ROOFS, Reach(decode_share=share)) for share in (1.0, 0.5))

    assert half.decode_s(4, 512) == pytest.approx(2 * full.decode_s(4, 512))
    assert half.prefill_s(512) == full.prefill_s(512)


def test_the_reach_is_the_grid() -> None:
    """What lies beyond the stated batch is marked; senseless reaches are refused."""
    curve = curve_of_model(LLAMA, ROOFS, Reach(batch=6))

    assert curve.beyond(Reached(batch=6)) == ()
    assert curve.beyond(Reached(batch=8))
    with pytest.raises(ValueError, match="shares"):
        Reach(decode_share=1.5)
    with pytest.raises(ValueError, match="at least one"):
        Reach(batch=0)
