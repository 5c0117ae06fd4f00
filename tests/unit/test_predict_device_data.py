"""What predictions for devices rest on: names, formats, rows, calibration, and measurements of others."""

from __future__ import annotations

import math

import pytest

from suffice.catalogue.entries import Device
from suffice.predict.device_calibration import from_document, shipped_calibration, to_document
from suffice.predict.device_classes import DeviceClass, classify, is_gpu_slice
from suffice.predict.device_cross import Miss, Sample, coverage, spreads_of, support_of, unseen_devices
from suffice.predict.device_elsewhere import elsewhere_rows, measured_elsewhere
from suffice.predict.device_fit import Observation, fit_decode
from suffice.predict.device_measured import read_measured
from suffice.predict.device_model import Work, decode_seconds
from suffice.predict.device_models import catalogue_model, step_bytes
from suffice.predict.device_ratings import rating_of
from suffice.predict.device_rows import predict_device_rows
from suffice.predict.device_samples import cloud_samples, measured_samples
from suffice.predict.device_spread import Familiarity
from suffice.predict.device_terms import DeviceCase, Parameter
from suffice.predict.device_words import EngineFamily, QuantFamily, engine_family, quant_format
from suffice.predict.machine import Phase
from suffice.units import GIGA

ROW = {
    "id": "G1", "hardware": "RTX 3080 10GB", "kind": "gpu", "mem_bandwidth_gb_s": "760.3", "bandwidth_source": "x",
    "threads_or_gpus": "1", "engine": "llama.cpp", "engine_version": "b2824", "model": "Llama-3-8B", "arch_params_b": "8.03",
    "quant": "Q4_K_M", "weights_gib": "4.58", "n_prompt": "512", "n_gen": "512", "depth_or_context": "0", "batch": "1",
    "prefill_tok_s": "3728.86", "decode_tok_s": "109.57", "source": "somewhere, May 2024", "notes": "",
}  # fmt: skip
CLOUD = {
    "vendor": "aws", "instance": "g5.xlarge", "gpu": "NVIDIA A10G", "gpu_count": "1", "llm_gpu": "NVIDIA A10G", "backend": "CUDA",
    "gpu_layers": "999", "model": "llama-7b.Q4_K_M.gguf", "model_bytes": "4080263168", "model_params": "6738415616",
    "n_prompt": "0", "n_gen": "128", "tok_s_median": "94",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "path", "key"),
    [
        ("NVIDIA GeForce RTX 4090", "gpu", "gpu/nvidia gddr/ada", "rtx 4090"),
        ("RTX 4090 in Ryzen 9 7900X (Nvidia 4090)", "gpu", "gpu/nvidia gddr/ada", "rtx 4090"),
        ("RTX 5000 Ada", "gpu", "gpu/nvidia gddr/ada", "rtx 5000 ada"),
        ("Quadro RTX 5000", "gpu", "gpu/nvidia gddr/turing", "quadro rtx 5000"),
        ("Tesla V100-SXM2-16GB", "gpu", "gpu hbm/nvidia hbm/volta", "v100"),
        ("Radeon RX 7900 XTX", "gpu", "gpu/amd gddr/rdna3", "rx 7900 xtx"),
        ("Strix Halo (Radeon 8060S)", "gpu", "gpu unified/amd unified/strix halo", "strix halo"),
        ("Apple M2 Ultra 76-core GPU 192GB", "apple", "apple/apple ultra/apple m2", "m2 ultra"),
        ("Raspberry Pi 5", "cpu", "cpu/cpu board", "raspberry pi 5"),
        ("AMD EPYC 9554 (Genoa)", "cpu", "cpu/cpu server/cpu server x86", "epyc 9554 genoa"),
        ("Accelerator Nine", "gpu", "gpu", None),
    ],
)
def test_names_give_classes(name: str, kind: str, path: str, key: str | None) -> None:
    """The names that drivers and people write give the class, and one spelling of the product."""
    found = classify(name, kind)

    assert (found.name, found.key) == (path, key)


def test_slices_of_a_gpu_are_told_apart() -> None:
    """A16-2Q is a slice, A16 is not, and rows of slices are not predicted."""
    assert is_gpu_slice("NVIDIA A16-2Q")
    assert not is_gpu_slice("NVIDIA A16")
    assert predict_device_rows([CLOUD | {"llm_gpu": "NVIDIA L4-3Q"}]) == [None]


@pytest.mark.parametrize(
    ("text", "family", "recipe"),
    [
        ("Q4_K_M (ollama default tag)", QuantFamily.K_QUANT, "q4_k_m"),
        ("UD-Q4_K_XL", QuantFamily.K_QUANT, "q4_k_m"),
        ("UD-Q8_K_XL", QuantFamily.EIGHT_BIT, "q8_0"),
        ("BF16", QuantFamily.WIDE, "bf16"),
        ("AWQ INT4", QuantFamily.GROUPED, None),
        ("GPTQ INT8", QuantFamily.EIGHT_BIT, None),
        ("MLX 4bit", QuantFamily.BLOCK, None),
        ("IQ1_S_R4", QuantFamily.CODEBOOK, "iq1_s"),
        ("I2_S", QuantFamily.TERNARY, None),
    ],
)
def test_formats_are_read(text: str, family: QuantFamily, recipe: str | None) -> None:
    """What people write of a format gives its family, and the GGUF recipe where it is one."""
    found = quant_format(text)

    assert found is not None
    assert (found.family, found.recipe) == (family, recipe)


def test_engines_are_read() -> None:
    """Engines of a family are written in many ways."""
    assert engine_family("llama.cpp CUDA FA") is EngineFamily.LLAMA_CPP
    assert engine_family("transformers (pytorch)") is EngineFamily.FRAMEWORK
    assert engine_family("vllm") is EngineFamily.SERVING
    assert engine_family("something new") is EngineFamily.OTHER


def test_models_of_the_wild_are_found_in_the_catalogue() -> None:
    """File names and repository names give the catalogue's id; an unknown one gives None."""
    assert catalogue_model("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf") == "llama-3.1-8b"
    assert catalogue_model("SmolLM-135M.Q4_K_M.gguf") == "smollm2-135m"
    assert catalogue_model("NoSuchModel-7B") is None


def test_the_embedding_of_a_printed_size_is_not_streamed() -> None:
    """Llama-3-8B at 4.58 GiB: the untied embedding, 6 % of the file, is looked up."""
    step = step_bytes("Llama-3-8B", "Q4_K_M", 4.58 * 2**30, 8.03e9)

    assert step is not None
    assert 0.92 < step.weight_bytes / (4.58 * 2**30) < 0.96
    assert step.kv_bytes(1000) == 1000 * 131072  # 32 layers x 8 heads x 128 x 2 x 2 bytes


def test_ratings_tell_variants_apart() -> None:
    """The A100 of 40 GB has 1555 GB/s, that of 80 GB 2039 or 1935."""
    names = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe")
    ratings = [rating_of(name, "gpu") for name in names]

    assert [rating.bandwidth_bytes_per_s / GIGA for rating in ratings if rating] == [1555, 2039, 1935]
    assert rating_of("Accelerator Nine", "gpu") is None


def test_a_published_row_is_read() -> None:
    """Mean depth is half of what llama-bench generates, time is the inverse of the rate, and nothing is wrong with the row."""
    row = read_measured(ROW)

    assert row.usable
    assert row.contradiction is None
    assert row.decode is not None
    assert row.prefill is not None
    assert row.decode.work.kv_bytes == 256 * 131072
    assert row.decode.measured_s == pytest.approx(1 / 109.57)
    assert row.prefill.measured_s == pytest.approx(512 / 3728.86)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"batch": "8"}, "more than one stream"),
        ({"hardware": "Raspberry Pi 5 x2 nodes", "kind": "cpu"}, "several machines"),
        ({"hardware": "Some PC", "kind": "cpu", "mem_bandwidth_gb_s": ""}, "bandwidth is not known"),
        ({"kind": "npu"}, "not calibrated"),
        ({"notes": "tokens/s over the whole request (512-token prompt)"}, "whole requests"),
        ({"quant": "q17"}, "neither the size nor the format"),
    ],
)
def test_rows_that_answer_another_question_are_refused(changed: dict[str, str], words: str) -> None:
    """Each has its reason, and none becomes a number."""
    row = read_measured(ROW | changed)

    assert row.decode is None
    assert words in (row.refusal or "")


def test_flags_keep_rows_out() -> None:
    """A flagged row is read, and does not calibrate."""
    samples = measured_samples([ROW, ROW | {"notes": "[flags:outlier] broken set-up"}], Phase.DECODE)

    assert len(samples) == 1


def test_a_row_above_its_ceiling_says_which_inputs_to_doubt() -> None:
    """400 tokens/s of 4.6 GB on 760 GB/s are impossible."""
    said = read_measured(ROW | {"decode_tok_s": "400"}).contradiction

    assert said is not None
    assert "doubt the rate, the bandwidth" in said


def test_rented_gpus_that_silently_ran_on_the_cpu_are_left_out() -> None:
    """A prefill under 100 tokens/s is that of a CPU: its decode rows are not used either."""
    slow = CLOUD | {"instance": "slow"}
    prompts = [CLOUD | {"n_prompt": "512", "n_gen": "0", "tok_s_median": "2000"}]
    prompts.append(slow | {"n_prompt": "512", "n_gen": "0", "tok_s_median": "40"})

    samples = cloud_samples([CLOUD, slow, *prompts], Phase.DECODE)

    assert [sample.product for sample in samples] == ["a10g"]


def test_bulk_rows_are_predicted_or_none() -> None:
    """A GPU row gives three numbers in order; unknown GPUs, rows of the CPU and models of which nothing is known give None; a name can say it."""
    rows = [
        CLOUD,
        CLOUD | {"n_prompt": "512", "n_gen": "0"},
        CLOUD | {"llm_gpu": "", "gpu_count": "4", "gpu": "NVIDIA A10G"},
        CLOUD | {"llm_gpu": "Accelerator Nine", "gpu": "Accelerator Nine"},
        CLOUD | {"gpu_layers": "0"},
        CLOUD | {"backend": "CPU"},
        CLOUD | {"model_bytes": "", "model_params": "", "model": "?"},
        CLOUD | {"model_bytes": "", "model_params": ""},
        {"gpu": "NVIDIA A10G"},
    ]

    answers = predict_device_rows(rows)

    assert [answer is not None for answer in answers] == [True, True, True, False, False, False, False, True, False]
    decode = answers[0]
    assert decode is not None
    rate, low, high = decode
    assert low < rate < high
    assert rate == pytest.approx(94, rel=0.12)


def test_a_calibration_survives_its_document() -> None:
    """Written and read again it predicts the same."""
    shipped = shipped_calibration()
    again = from_document(to_document(shipped))

    assert to_document(again) == to_document(shipped)


def _case(key: str, quant: QuantFamily = QuantFamily.K_QUANT) -> DeviceCase:
    device = DeviceClass(path=("gpu", "nvidia gddr", "ada"), key=key)
    return DeviceCase(device=device, quant=quant, engine=EngineFamily.LLAMA_CPP)


def _planted(efficiency: float, fixed_s: float, noise: float = 0.0) -> list[Sample]:
    samples = []
    for number in range(12):
        case = _case(f"card {number % 6}")
        work = Work(bandwidth_bytes_per_s=(300 + 150 * (number % 6)) * GIGA, weight_bytes=(1 + 3 * (number % 4)) * GIGA)
        seconds = work.weight_bytes / (efficiency * work.bandwidth_bytes_per_s) + fixed_s
        seconds *= math.exp(noise * (-1) ** number)
        samples.append(
            Sample(
                observation=Observation(case=case, work=work, measured_s=seconds),
                product=f"card {number % 6}",
                model=str(number % 4),
                source="published",
                kind="gpu",
            )
        )
    return samples


def test_the_fit_finds_what_was_planted() -> None:
    """Exact times of a known law give back its efficiency and fixed cost, and one wrong row in twelve does not change that."""
    rows = [sample.observation for sample in _planted(0.8, 2.5e-3)]
    wrong = Observation(case=rows[0].case, work=rows[0].work, measured_s=rows[0].measured_s * 10)

    for observations in (rows, [*rows, wrong]):
        resolved = fit_decode(observations).resolve(_case("card 1"))
        assert resolved.efficiency == pytest.approx(0.8, rel=0.05)
        assert resolved.overhead_s == pytest.approx(2.5e-3, rel=0.1)


def test_a_left_out_device_is_not_in_its_own_training_set() -> None:
    """Devices that obey the law are predicted without having been seen, and none counts as known."""
    misses = unseen_devices(_planted(0.8, 2.5e-3), Phase.DECODE, folds=6)

    assert len(misses) == 12
    assert all(miss.familiarity is not Familiarity.PRODUCT for miss in misses)
    assert max(miss.relative_error for miss in misses) < 0.05


def test_ranges_hold_their_share_of_the_errors_that_made_them() -> None:
    """Tails at 10 % and 90 %: about eight in ten of the rows are inside."""
    sample = _planted(0.8, 2.5e-3)[0]
    misses = [
        Miss(sample=sample, familiarity=Familiarity.CLASS, log_error=(number - 50) / 200) for number in range(101)
    ]
    spreads = spreads_of(misses)

    held = coverage(misses, lambda miss: spreads.of(*miss.cell))

    assert 0.76 <= sum(held) / len(held) <= 0.84


def test_only_models_that_tell_bandwidth_make_a_product_known() -> None:
    """Three rows of tiny models measure the fixed cost alone."""
    samples = _planted(0.8, 2.5e-3)
    tiny = [
        Sample(
            observation=Observation(
                case=_case("tiny"), work=Work(bandwidth_bytes_per_s=GIGA, weight_bytes=1e8), measured_s=1
            ),
            product="tiny",
            model=str(number),
            source="published",
            kind="gpu",
        )
        for number in range(4)
    ]

    assert support_of([*samples, *tiny]).familiarity(_case("tiny")) is Familiarity.GENERATION


def test_shipped_parameters_are_physical() -> None:
    """No device class draws more than its bandwidth, and no token is free."""
    parameters = shipped_calibration().parameters
    for name, kind in (
        ("NVIDIA L4", "gpu"),
        ("Apple M4", "apple"),
        ("Raspberry Pi 5", "cpu"),
        ("Radeon RX 7900 XTX", "gpu"),
    ):
        for quant in QuantFamily:
            case = DeviceCase(device=classify(name, kind), quant=quant, engine=EngineFamily.LLAMA_CPP)
            resolved = parameters.resolve(case)
            assert 0.02 < resolved.efficiency < 1.05, (name, quant)
            assert resolved.overhead_s > 1e-4
            assert decode_seconds(case, resolved, Work(bandwidth_bytes_per_s=GIGA, weight_bytes=GIGA)) > 0.9


def test_the_root_of_each_parameter_ships() -> None:
    """Each of the five parameters has its root, from which unknown classes start."""
    logs = shipped_calibration().parameters.logs

    assert all("root" in logs[parameter] for parameter in Parameter)


def test_a_device_that_somebody_measured_is_found() -> None:
    """An Apple M4 Pro with Llama-3.1-8B in Q4_K_M was published: rate, engine and source are shown; a format that nobody ran is not."""
    chip = Device(id="apple-m4-pro", name="Apple M4 Pro", kind="soc", source="a test", seen="2026-11-30")

    found = measured_elsewhere(chip, "llama-3.1-8b", "q4_k_m")

    assert [row.decode_tokens_per_second for row in found] == [47.25]
    assert found[0].engine == "llama.cpp server"
    assert "github.com" in found[0].source
    assert measured_elsewhere(chip, "llama-3.1-8b", "q2_k") == ()
    assert measured_elsewhere(chip, "no-such-model", "q4_k_m") == ()


def test_only_sound_rows_are_shown_as_measured_elsewhere() -> None:
    """Flagged, batched and nameless rows are left out; a date is taken where the source has one."""
    rows = elsewhere_rows(
        [ROW, ROW | {"notes": "[flags:impossible] x"}, ROW | {"batch": "4"}, ROW | {"hardware": "GPU"}]
    )

    assert [row["date"] for row in rows] == ["May 2024"]
