"""Predictions for devices: laws, known devices, refusals, ranges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suffice.catalogue.entries import Device, Sourced
from suffice.predict.cpu import Prediction
from suffice.predict.device import Refusal, predict_device
from suffice.predict.machine import Phase, WorkloadSpec
from suffice.units import GIGA

LLAMA_8B = WorkloadSpec(
    phase=Phase.DECODE,
    n_tokens=128,
    streamed_bytes=4.6 * GIGA,
    parameters=8.03 * GIGA,
    file_bytes=4.9 * GIGA,
    quant="q4_k_m",
)


def device(
    name: str, gigabytes_per_s: float | None, *, kind: str = "gpu", memory_gb: float | None = 24.0, **more: object
) -> Device:
    """A device as the catalogue would have it."""
    bandwidth = None
    if gigabytes_per_s is not None:
        bandwidth = Sourced(value=gigabytes_per_s * GIGA, kind="datasheet", source="a test", seen="2026-11-30")
    memory = None if memory_gb is None else memory_gb * GIGA
    plain = Device(
        id="x",
        name=name,
        kind=kind,
        source="a test",
        seen="2026-11-30",
        bandwidth_bytes_per_s=bandwidth,
        memory_min_bytes=memory,
        memory_max_bytes=memory,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def predicted(
    device_: Device, workload: WorkloadSpec = LLAMA_8B, *, engine: str = "llama.cpp", count: int = 1
) -> Prediction:
    """A prediction that must be one."""
    answer = predict_device(device_, workload, engine=engine, count=count)
    assert isinstance(answer, Prediction), answer
    return answer


def refused(
    device_: Device, workload: WorkloadSpec = LLAMA_8B, *, engine: str = "llama.cpp", count: int = 1
) -> Refusal:
    """A refusal that must be one."""
    answer = predict_device(device_, workload, engine=engine, count=count)
    assert isinstance(answer, Refusal), answer
    return answer


@pytest.mark.parametrize(
    ("name", "kind", "bandwidth", "streamed_gb", "quant", "measured"),
    [
        # Published figures, read from their sources: llama-bench tg128.
        ("NVIDIA A10G", "gpu", 600, 4.03, "q4_k_m", 94),  # Llama-2-7B, SpareCores
        ("NVIDIA L4", "gpu", 300, 4.03, "q4_k_m", 53),
        ("Apple M2 Pro", "soc", 200, 3.75, "q4_0", 37.9),  # llama.cpp discussion 4167
        ("Apple M4 Max 16-core CPU / 40-core GPU", "soc", 546, 7.06, "q8_0", 54.1),
        ("NVIDIA RTX A5000", "gpu", 768, 3.75, "q4_0", 135.4),
    ],
)
def test_known_devices_are_near_what_was_measured(
    name: str, kind: str, bandwidth: float, streamed_gb: float, quant: str, measured: float
) -> None:
    """Within 15 % of the published rate, and the published rate is within the range."""
    workload = replace(
        LLAMA_8B, streamed_bytes=streamed_gb * GIGA, file_bytes=None, quant=quant, parameters=6.74 * GIGA
    )

    answer = predicted(device(name, bandwidth, kind=kind), workload)

    assert answer.tokens_per_second == pytest.approx(measured, rel=0.15)
    assert answer.low <= measured <= answer.high


def test_small_models_are_slower_than_bandwidth_says() -> None:
    """Of a 0.4 GB model a fast card reaches far less of its bandwidth than of a 40 GB one: the fixed cost per token decides."""
    card = device("NVIDIA A100 SXM4 80GB", 2039, memory_gb=80)
    small = replace(LLAMA_8B, streamed_bytes=0.4 * GIGA, parameters=0.5 * GIGA, file_bytes=None)
    large = replace(LLAMA_8B, streamed_bytes=40.0 * GIGA, parameters=70 * GIGA, file_bytes=None)

    shares = [predicted(card, work).tokens_per_second * work.streamed_bytes / (2039 * GIGA) for work in (small, large)]

    assert shares[0] < 0.15
    assert shares[1] > 0.45


def test_an_unknown_device_has_a_wider_range() -> None:
    """A known card, one of a known generation, and a name that says nothing: each range is wider, and says why."""
    known = predicted(device("NVIDIA L40S", 864))
    akin = predicted(device("NVIDIA L20", 864))
    nameless = predicted(device("Accelerator Nine", 864))

    widths = [answer.high / answer.low for answer in (known, akin, nameless)]
    assert widths[0] < widths[1] < widths[2]
    assert not any("was not measured" in reason for reason in known.wide_because)
    assert any("was not measured" in reason for reason in akin.wide_because)
    assert any("says nothing of its generation" in reason for reason in nameless.wide_because)


def test_the_prediction_says_what_it_rests_on() -> None:
    """Rows of the device itself are counted for a known one, products of its generation for another."""
    assert any("measured rows of l4" in text for text in predicted(device("NVIDIA L4", 300)).rests_on)
    assert any("products of ada" in text for text in predicted(device("NVIDIA L20", 864)).rests_on)


def test_the_range_never_exceeds_what_the_bandwidth_can_move() -> None:
    """The upper end is at most bandwidth over bytes."""
    answer = predicted(device("Accelerator Nine", 100))

    assert answer.high <= 100 * GIGA / LLAMA_8B.streamed_bytes


def test_a_model_that_does_not_fit_is_refused_with_numbers() -> None:
    """4.9 GB of weights on a card of 4 GB: no rate, but how much is needed and how much there is."""
    answer = refused(device("NVIDIA L4", 300, memory_gb=4))

    assert "does not fit" in answer.reason
    assert answer.needed_bytes == pytest.approx(4.9 * GIGA)
    assert answer.usable_bytes is not None
    assert answer.usable_bytes < 4 * GIGA


def test_devices_that_share_layers_add_memory_and_no_speed() -> None:
    """What does not fit one fits two; one stream is not faster on them, and the answer says so."""
    card = device("NVIDIA L4", 300, memory_gb=4)
    two = predicted(card, count=2)

    assert two.tokens_per_second < predicted(device("NVIDIA L4", 300)).tokens_per_second
    assert any("no speed" in reason for reason in two.wide_because)


@pytest.mark.parametrize("factor", [0.4, 3.0])
def test_a_bandwidth_that_contradicts_another_source_is_refused(factor: float) -> None:
    """An RTX 4090 of 3 TB/s or 400 GB/s is a mistake of the entry: nothing is predicted from it."""
    answer = refused(device("NVIDIA GeForce RTX 4090", 1008 * factor))

    assert "one of the two is wrong" in answer.reason


def test_memory_channels_that_contradict_the_bandwidth_are_refused() -> None:
    """Two channels of DDR5-5600 cannot move 500 GB/s."""
    impossible = device("A PC", 500, kind="cpu", channels=2, mega_transfers_per_s=5600.0)

    assert "one of the two is wrong" in refused(impossible).reason


def test_a_type_that_the_device_lacks_is_refused() -> None:
    """BF16 under vLLM on a T4 is refused; llama.cpp converts such a file and is not."""
    card = device("NVIDIA T4", 320, dtype_support={"bf16": False})
    bf16 = replace(LLAMA_8B, quant="bf16", streamed_bytes=3.0 * GIGA, file_bytes=None)

    assert "does not multiply in BF16" in refused(card, bf16, engine="vLLM").reason
    assert predicted(card, bf16).tokens_per_second > 0


@pytest.mark.parametrize(
    ("entry", "quant", "words"),
    [
        (device("NVIDIA L4", None), "q4_k_m", "bandwidth is not known"),
        (device("Ascend 910B1", 1600, kind="npu"), "q4_k_m", "no public measurement"),
        (device("NVIDIA L4", 300), "q17", "no format"),
    ],
)
def test_what_is_not_known_is_refused(entry: Device, quant: str, words: str) -> None:
    """No bandwidth, no calibration, no such format: one sentence each instead of a number."""
    assert words in refused(entry, replace(LLAMA_8B, quant=quant)).reason


def test_memory_sold_in_sizes_is_remarked() -> None:
    """A model that fits the larger size only is predicted, with a remark."""
    chip = device("Apple M2 Pro", 200, kind="soc", memory_min_bytes=4.0 * GIGA, memory_max_bytes=32.0 * GIGA)

    assert any("larger of its memory sizes" in reason for reason in predicted(chip).wide_because)


def test_a_mixture_of_experts_goes_by_its_active_bytes() -> None:
    """Memory by all experts, speed by those that a token reads."""
    card = device("NVIDIA L40S", 864, memory_gb=48)
    moe = replace(
        LLAMA_8B, streamed_bytes=2.0 * GIGA, parameters=30 * GIGA, active_parameters=3 * GIGA, file_bytes=18.0 * GIGA
    )

    assert predicted(card, moe).tokens_per_second > predicted(card).tokens_per_second
    assert "does not fit" in refused(device("NVIDIA L40S", 864, memory_gb=16), moe).reason


def test_prefill_follows_the_dense_peak() -> None:
    """An L20 has the bandwidth of an L40S and a third of its peak: equal decode, slower prefill."""
    prompt = replace(LLAMA_8B, phase=Phase.PREFILL, n_tokens=512)
    l40s, l20 = device("NVIDIA L40S", 864), device("NVIDIA L20", 864)

    assert predicted(l20).tokens_per_second == pytest.approx(predicted(l40s).tokens_per_second, rel=0.1)
    assert predicted(l20, prompt).tokens_per_second < 0.8 * predicted(l40s, prompt).tokens_per_second


def test_batches_and_no_devices_are_errors() -> None:
    """Only one stream is predicted, on one device at least."""
    with pytest.raises(ValueError, match="one stream"):
        predict_device(device("NVIDIA L4", 300), replace(LLAMA_8B, batch=4))
    with pytest.raises(ValueError, match="one stream"):
        predict_device(device("NVIDIA L4", 300), LLAMA_8B, count=0)
