"""Flash attention on or off: the faster one is gone on with, and only when it is affordable to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suffice.measure.attention import compare_attention, probe_depth
from suffice.measure.engine.fake import FakeClock, FakeEngine, FakeSpeed
from suffice.measure.engine.seam import EngineSettings, Session

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = EngineSettings(n_ctx=1024, n_threads=2, n_threads_batch=2)


def _session(step_s: float, tmp_path: Path) -> Session:
    model = tmp_path / "toy.gguf"
    model.write_bytes(b"GGUF")
    engine = FakeEngine(clock=FakeClock(), speed=FakeSpeed(decode_step_s=step_s, useful_threads=1))
    return engine.open(model, SETTINGS)


@pytest.mark.parametrize(
    ("on_s", "off_s", "off_wins"), [(0.02, 0.01, True), (0.01, 0.02, False), (0.01, 0.0095, False)]
)
def test_the_faster_session_is_kept(on_s: float, off_s: float, off_wins: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """Twice the speed is followed, the other way round it is not, and a gain of 5 % is within the error of the probe."""
    on, off = _session(on_s, tmp_path), _session(off_s, tmp_path)

    kept, probe = compare_attention(on, lambda: off, 128)

    assert kept is (off if off_wins else on)
    assert probe.off_is_faster is off_wins
    assert probe.on_tokens_per_second == pytest.approx(1 / on_s)
    assert probe.off_tokens_per_second == pytest.approx(1 / off_s)


def test_the_probe_goes_no_deeper_than_the_budget_allows() -> None:
    """A fifth of 40 s for four fillings at 10 ms a token is 200 tokens; at 100 ms it is 20, which tells nothing."""
    assert probe_depth(512, budget_s=40.0, prefill_token_s=0.01) == 200
    assert probe_depth(100, budget_s=40.0, prefill_token_s=0.01) == 100
    assert probe_depth(512, budget_s=40.0, prefill_token_s=0.1) is None
