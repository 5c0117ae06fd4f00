"""Laws of the extrapolation, on the slices that are really planned: a planted truth comes back, and noise stays bounded."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.slice_runs import toy_header
from suffice.model.extrapolation import LayerFit, SliceTime, fit_layers
from suffice.model.slice_plan import plan_slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.slices import SliceDesign

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
# Layers, kinds, rows of the vocabulary (a large one is cut), and the share of the model that slices may take.
DESIGNS = st.tuples(st.integers(5, 40), st.integers(1, 3), st.sampled_from([256, 65536]), st.floats(0.3, 1.5))
TIMES = st.floats(1e-4, 1e2)
TYPES = ("q8_0", "q4_0", "f16")


@cache
def designed(n_layer: int, kinds: int, n_vocab: int, share: float) -> SliceDesign:
    """The slices of a toy."""
    header = toy_header(n_layer, kinds=TYPES[:kinds], n_vocab=n_vocab)
    return plan_slices(header, round(share * header.tensor_bytes))


def fitted(design: SliceDesign, fixed_s: float, layer_s: Sequence[float], noise: Sequence[float] = ()) -> LayerFit:
    """The fit of planted times; the work is in the ratio of the layers' times."""
    factors = noise or [1.0] * len(design.plans)
    slices = [
        SliceTime(counts=design.counts(plan), seconds=factor * (fixed_s + _dot(layer_s, design.counts(plan))))
        for plan, factor in zip(design.plans, factors, strict=True)
    ]
    return fit_layers(slices, [1e9 * seconds for seconds in layer_s])


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def layer_times(design: SliceDesign, data: st.DataObject) -> list[float]:
    """A time for each kind, and for the head where it is one; they differ by up to ten times."""
    scale = data.draw(TIMES)
    return [scale * data.draw(st.floats(0.3, 3)) for _ in design.full_counts]


@QUICK
@given(DESIGNS, st.floats(0, 10), st.data())
def test_a_planted_truth_comes_back(sizes: tuple[int, int, int, float], fixed: float, data: st.DataObject) -> None:
    """Whatever the fixed part and the layers take: the whole model's time is found to a millionth, with no residual."""
    design = designed(*sizes)
    layer_s = layer_times(design, data)
    fixed_s = fixed * max(layer_s)

    fit = fitted(design, fixed_s, layer_s)

    truth = fixed_s + _dot(layer_s, design.full_counts)
    assert fit.total_s(design.full_counts) == pytest.approx(truth, rel=1e-6)
    assert fit.largest_residual < 1e-6


@QUICK
@given(DESIGNS, st.floats(1e-3, 1e3), st.data())
def test_another_unit_of_time_changes_nothing_else(
    sizes: tuple[int, int, int, float], factor: float, data: st.DataObject
) -> None:
    """A machine that is slower by a factor in everything takes longer by that factor for the whole model."""
    design = designed(*sizes)
    layer_s = layer_times(design, data)
    noise = [data.draw(st.floats(0.97, 1.03)) for _ in design.plans]

    slow = fitted(design, factor, [factor * seconds for seconds in layer_s], noise)
    fit = fitted(design, 1.0, layer_s, noise)

    expected = factor * fit.total_s(design.full_counts)
    assert slow.total_s(design.full_counts) == pytest.approx(expected, rel=1e-6)
    assert slow.residuals == pytest.approx(fit.residuals, abs=1e-6)


@QUICK
@given(DESIGNS, st.floats(0, 3), st.data())
def test_more_layers_never_take_less(sizes: tuple[int, int, int, float], fixed: float, data: st.DataObject) -> None:
    """One more layer of any kind does not make the model faster."""
    design = designed(*sizes)
    layer_s = layer_times(design, data)
    fit = fitted(design, fixed * max(layer_s), layer_s)
    counts = list(design.full_counts)

    for kind in range(len(design.kinds)):
        more = [count + (index == kind) for index, count in enumerate(counts)]
        assert fit.total_s(more) >= fit.total_s(counts)


@QUICK
@given(DESIGNS, st.floats(0, 3), st.data())
def test_the_whole_is_never_faster_than_a_slice(
    sizes: tuple[int, int, int, float], fixed: float, data: st.DataObject
) -> None:
    """Even with noise of half of a time, the total is at least that of the slowest slice."""
    design = designed(*sizes)
    layer_s = layer_times(design, data)
    noise = [data.draw(st.floats(0.5, 1.5)) for _ in design.plans]
    fixed_s = fixed * max(layer_s)

    total = fitted(design, fixed_s, layer_s, noise).total_s(design.full_counts)

    times = [
        factor * (fixed_s + _dot(layer_s, design.counts(plan)))
        for plan, factor in zip(design.plans, noise, strict=True)
    ]
    assert total >= max(times)


@QUICK
@given(st.integers(8, 80), st.floats(0, 3), st.data())
def test_noise_stays_bounded(n_layer: int, fixed: float, data: st.DataObject) -> None:
    """An error of 1 % in each slice makes one of at most 1 % times (ends' sum over their distance) in one kind of layers."""
    design = designed(n_layer, 1, 256, 0.9)
    (layer_s,) = layer_times(design, data)
    fixed_s = fixed * layer_s
    noise = [data.draw(st.floats(0.99, 1.01)) for _ in design.plans]

    total = fitted(design, fixed_s, [layer_s], noise).total_s(design.full_counts)

    lengths = [len(plan.layers) for plan in design.plans]
    longest_s = fixed_s + layer_s * max(lengths)
    reach = (n_layer - min(lengths)) / (max(lengths) - min(lengths))  # how far the lever reaches beyond its ends
    assert abs(total - fixed_s - layer_s * n_layer) <= 0.01 * longest_s * (2 * reach + 1) * 1.5
