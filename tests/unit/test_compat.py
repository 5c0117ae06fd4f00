"""The three functions of requirements/000, to the letter."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import pytest

import suffice
from suffice import assert_decode_ceiling, choose_hardware, decode_ceiling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THIN = "cpu, thin margin \u2014 recheck after quantization"


def test_decode_ceiling_of_the_article() -> None:
    """40 GB/s over 3.5 GB is 11.428... tokens/s, without rounding."""
    assert decode_ceiling(40, 3.5) == 40 / 3.5
    assert 11.428 < decode_ceiling(bandwidth_gb_s=40, weights_gb=3.5) < 11.429


@pytest.mark.parametrize(
    ("required", "measured", "words"), [(8, 14, "cpu"), (9, 10, THIN), (9, 8, "gpu"), (9, 13.5, "cpu"), (9, 9, THIN)]
)
def test_choose_hardware_of_the_article(required: float, measured: float, words: str) -> None:
    """The article's examples, and both thresholds, which belong to the better side."""
    assert choose_hardware(required, measured) == words


def test_a_margin_of_ones_own() -> None:
    """The margin is an argument: 10 against 9 is enough with 1.1 and thin with 1.2."""
    assert choose_hardware(9, 10, margin=1.1) == "cpu"
    assert choose_hardware(9, 10, margin=1.2) == THIN


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (decode_ceiling, "(bandwidth_gb_s: 'float', weights_gb: 'float') -> 'float'"),
        (
            choose_hardware,
            "(required_tokens_s: 'float', measured_cpu: 'float', margin: 'float' = 1.5) -> 'str'",
        ),
        (assert_decode_ceiling, "(path: 'str', floor: 'float') -> 'None'"),
    ],
)
def test_signatures_are_the_articles(function: Callable[..., object], signature: str) -> None:
    """Names of arguments, defaults and annotations are those that readers paste."""
    assert str(inspect.signature(function)) == signature


def test_the_guard_passes_at_the_floor(tmp_path: Path) -> None:
    """A record that decodes at the floor exactly holds it."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"decode_tokens_per_second": 8.0}), encoding="utf-8")

    assert_decode_ceiling(str(path), 8)


def test_the_guard_fails_in_the_words_of_the_article(tmp_path: Path) -> None:
    """Below the floor: AssertionError with floor and one decimal of what was measured."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"decode_tokens_per_second": 7.9}), encoding="utf-8")

    with pytest.raises(AssertionError) as failure:
        assert_decode_ceiling(str(path), 8)
    assert str(failure.value) == "decode fell below 8: 7.9"


def test_a_missing_measurement_is_no_pass(tmp_path: Path) -> None:
    """Null is not a speed: the guard fails instead of comparing it with the floor."""
    path = tmp_path / "result.json"
    path.write_text('{"decode_tokens_per_second": null}', encoding="utf-8")

    with pytest.raises(AssertionError, match="not measured"):
        assert_decode_ceiling(str(path), 0)


def test_the_guard_works_where_assertions_are_off() -> None:
    """The function raises by itself: `python -O` drops assert statements, and a guard must not go with them."""
    assert "assert " not in inspect.getsource(assert_decode_ceiling).split('"""')[2]


def test_exported_members() -> None:
    """What `from suffice import ...` offers is what `__all__` lists, and every name of it resolves."""
    assert sorted(suffice.__all__) == suffice.__all__
    assert set(suffice.__all__) >= {"decode_ceiling", "choose_hardware", "assert_decode_ceiling", "SufficeError"}
    assert all(getattr(suffice, name) is not None for name in suffice.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = suffice.nothing
