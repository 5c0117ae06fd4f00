"""Several machines against one demand."""

from __future__ import annotations

from itertools import product

import pytest

from helpers.records import bare_record
from suffice.decide.compare import Decision, decide
from suffice.decide.evidence import MachineEvidence, evidence_from
from suffice.errors import UsageError
from suffice.model.demand import single_stream_need
from suffice.records.schema import ModelRecord

CPU = "cpu"
THIN = "cpu, thin margin \u2014 recheck after quantization"
GPU = "gpu"
UNDECIDED = "undecided"
NEED = single_stream_need(9)
SPEEDS = {"enough": 20.0, "thin": 10.0, "not enough": 5.0, "open": None}
# CPU grade, GPU grade -> the verdict for both, and the least machine that is enough.
BOTH = {
    ("enough", "enough"): (CPU, "box"),
    ("enough", "thin"): (CPU, "box"),
    ("enough", "not enough"): (CPU, "box"),
    ("enough", "open"): (CPU, "box"),
    ("thin", "enough"): (THIN, "card"),
    ("thin", "thin"): (THIN, "box"),
    ("thin", "not enough"): (THIN, "box"),
    ("thin", "open"): (THIN, "box"),
    ("not enough", "enough"): (GPU, "card"),
    ("not enough", "thin"): (GPU, "card"),
    ("not enough", "not enough"): (UNDECIDED, None),
    ("not enough", "open"): (UNDECIDED, None),
    ("open", "enough"): (UNDECIDED, "card"),
    ("open", "thin"): (UNDECIDED, "card"),
    ("open", "not enough"): (UNDECIDED, None),
    ("open", "open"): (UNDECIDED, None),
}


def _machine(name: str, speed: float | None, kind: str = "cpu", **changes: object) -> MachineEvidence:
    return evidence_from(bare_record(speed, device_kind=kind, **changes), name)


def _both(cpu: str, gpu: str) -> Decision:
    return decide(NEED, [_machine("box", SPEEDS[cpu]), _machine("card", SPEEDS[gpu], "gpu")])


@pytest.mark.parametrize(("cpu", "gpu"), list(product(SPEEDS, SPEEDS)))
def test_all_combinations_of_a_cpu_and_a_gpu(cpu: str, gpu: str) -> None:
    """A CPU that is enough decides; a GPU is named only when it was measured to be enough and the CPU was not."""
    decision = _both(cpu, gpu)

    assert (decision.verdict.verdict, decision.least_machine) == BOTH[cpu, gpu]
    assert f"box: {cpu}" in decision.verdict.reason
    assert f"card: {gpu}" in decision.verdict.reason


def test_undecided_of_several_says_what_would_settle_it() -> None:
    """Each undecided combination has a next step."""
    for cpu, gpu in product(SPEEDS, SPEEDS):
        verdict = _both(cpu, gpu).verdict
        assert verdict.verdict != UNDECIDED or verdict.settle, (cpu, gpu)


def test_the_order_of_records_does_not_matter() -> None:
    """The same records in another order give the same verdict and the same least machine."""
    machines = [_machine("slow", 5.0), _machine("mid", 15.0), _machine("fast", 40.0), _machine("card", 90.0, "gpu")]

    for turn in range(len(machines)):
        decision = decide(NEED, machines[turn:] + machines[:turn])
        assert (decision.verdict.verdict, decision.verdict.machine, decision.least_machine) == (CPU, "mid", "mid")


@pytest.mark.parametrize(
    ("speed", "kind", "word"),
    [(20, "gpu", UNDECIDED), (10, "gpu", UNDECIDED), (5, "gpu", UNDECIDED), (None, "gpu", UNDECIDED), (5, "cpu", GPU)],
)
def test_one_machine_alone(speed: float | None, kind: str, word: str) -> None:
    """A GPU alone says nothing of whether a CPU would do, enough or not; a CPU that is not enough is "gpu"."""
    decision = decide(NEED, [_machine("only", speed, kind)])

    assert decision.verdict.verdict == word
    assert decision.ratios == ()


def test_ratios_are_against_the_first() -> None:
    """The second machine decodes 4 times and prefills 10 times as fast; the model file was the same."""
    model = ModelRecord(sha256="aa")
    first = _machine("box", 5.0, prefill_tokens_per_second=100.0, model=model)
    second = _machine("card", 20.0, "gpu", prefill_tokens_per_second=1000.0, model=model)

    (ratio,) = decide(NEED, [first, second]).ratios

    assert (ratio.machine, ratio.decode, ratio.prefill, ratio.comparable) == ("card", 4.0, 10.0, True)


def test_ratios_of_the_unknown_are_unknown() -> None:
    """Without a number on one side there is no ratio; without an identity it is not one of machines."""
    (ratio,) = decide(NEED, [_machine("box", None), _machine("card", 20.0, "gpu")]).ratios

    assert (ratio.decode, ratio.prefill, ratio.comparable) == (None, None, False)


def test_no_records_are_refused() -> None:
    """A verdict without evidence is an error with the command that makes some."""
    with pytest.raises(UsageError, match="suffice measure"):
        decide(NEED, [])
