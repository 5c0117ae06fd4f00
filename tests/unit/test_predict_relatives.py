"""Sums over a machine's measured relatives: whatever was asked before, and however much is kept."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.predict import relatives as under_test
from suffice.predict.relatives import SIZES, Relatives, relatives_of

KEYS: list[tuple[str, ...]] = [("a", "a|s", "a|s|f"), ("a", "a|s", "a|s|g"), ("b", "b|s", "b|s|f")]


def measured() -> Relatives:
    """Three machines, one of which was measured with the smallest model only."""
    residuals = np.full((3, len(SIZES)), 0.25)
    residuals[1], residuals[2, 1:] = -0.5, np.nan
    return Relatives(keys=KEYS, log_threads=np.log([4.0, 8.0, 16.0]), residuals=residuals)


@pytest.mark.parametrize("kept", [0, 1, 20_000])
def test_what_is_kept_changes_no_sum(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each machine apart and all at once are the sums without a memory; unknown cores are alike, and kept."""
    monkeypatch.setattr(under_test, "_MOST_KEPT", kept)
    those, threads = measured(), np.log([8.0, np.nan, 8.0])
    nobody = np.full(3, -1)
    expected = relatives_of(those, KEYS, threads, nobody)

    for order in ([2, 0, 1], [0, 1, 2], [1, 1, 2], [0]):
        found = relatives_of(those, [KEYS[place] for place in order], threads[order])
        np.testing.assert_allclose(found, expected[order])
    assert np.isfinite(expected).all()
    assert (expected[:, 0, 0] > 0).any()
    assert len(under_test._known_sums(those)) == (3 if kept > 3 else 1)


def test_no_machine_has_no_sums() -> None:
    """A plan of nothing but devices asks for nobody."""
    assert relatives_of(measured(), [], np.zeros(0)).shape == (0, 3, 2, len(SIZES))
