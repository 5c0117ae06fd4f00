"""Images in prompts: tokens and encoder by the published rules, and what a demand with images asks of a machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.records import evidence, run_record
from suffice.decide.constraints import constraints_for
from suffice.decide.encoder import encoder_s, encoder_tokens, with_encoder
from suffice.decide.evidence import evidence_from
from suffice.decide.service_load import queue_case
from suffice.decide.verdict import Grade, decide_machine
from suffice.errors import DemandError
from suffice.loaders.demand import parse_demand
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.model.vision import ImageLoad, encoder_flop, rule_names, rule_of, text_prompt, views_of, with_images
from suffice.units import TERA

DOCS = Path(__file__).parents[2] / "docs" / "vision.md"
TEXT = Demand(
    kind=DemandKind.INTERACTIVE,
    prompt_tokens=Lengths(p50=20, p95=40),
    output_tokens=Lengths(p50=50, p95=50),
    ttft=Limit(value_s=60, percentile=95),
)
PICTURE = ImageLoad(per_request=2, tokens_each=256, encoder_flop_each=5e12, encoder_bytes=8e8, source="gemma-3")


@pytest.mark.parametrize(
    ("family", "size", "tokens", "views"),
    [
        ("qwen2-vl", (224, 224), 64, 1),  # arXiv:2409.12191: 66 with the two marks around it
        ("qwen2-vl", (1920, 1080), 2691, 1),  # 69 x 39 of 28 px
        ("qwen2-vl", (8, 8), 4, 1),  # raised to 56 x 56 px
        ("qwen2.5-vl", (8204, 1092), 11427, 1),  # 293 x 39: under the limit of 16,384
        ("qwen2.5-vl", (6000, 6000), 16384, 1),  # lowered to 128 x 128 of 28 px
        ("qwen3-vl", (1920, 1080), 2040, 1),  # 60 x 34 of 32 px
        ("qwen3-vl", (224, 224), 64, 1),  # raised to 256 x 256 px
        ("llava-1.5", (1024, 768), 576, 1),
        ("llava-next", (672, 672), 2928, 5),  # 48 x 48 + 48 ends of rows + 576
        ("llava-next", (336, 336), 1176, 3),  # 336 x 672: the padding is cut off, 24 x 24 + 24 + 576
        ("gemma-3", (300, 3000), 256, 1),
        ("internvl", (448, 448), 256, 1),
        ("internvl", (896, 896), 1280, 5),  # 2 x 2 and a thumbnail
        ("internvl", (4032, 3024), 3328, 13),  # 4 x 3: the most, 12 and a thumbnail
        ("minicpm-v", (1344, 1344), 640, 10),  # arXiv:2408.01800: 640 for 1.8 million pixels
        ("minicpm-v", (448, 448), 64, 1),
        ("smolvlm", (1536, 1536), 1377, 17),  # 4 x 4 and the whole, 81 each
        ("smolvlm", (1920, 1080), 1053, 13),  # 4 x 3
        ("smolvlm-256m", (512, 512), 1088, 17),  # enlarged to 2048
        ("llama-3.2-vision", (560, 560), 1, 1),
        ("llama-3.2-vision", (1120, 560), 1, 1),
        ("llama-3.2-vision", (3000, 3000), 1, 1),
    ],
)
def test_tokens_are_those_of_the_authors_preprocessors(
    family: str, size: tuple[int, int], tokens: int, views: int
) -> None:
    """Worked by hand by the published rule, or printed by the authors."""
    rule = rule_of(family)
    assert rule is not None

    found = views_of(rule, *size)

    assert (found.tokens, len(found.patches)) == (tokens, views)


def test_llama_vision_sees_the_patches_of_all_tiles_at_once() -> None:
    """Four tiles of 1601 are one sequence of 6404: 2 x 6404 x 40 x (4 x 1280^2 + 2 x 1280 x 5120) + 4 x 1280 x 6404^2 x 40 = 18.5 TFLOP."""
    rule = rule_of("llama-3.2-vision")
    assert rule is not None

    views = views_of(rule, 3000, 3000)

    assert views.patches == (6404,)
    assert encoder_flop(rule, views) == pytest.approx(18.47e12, rel=1e-3)


@pytest.mark.parametrize(
    ("family", "size", "millions"),
    [
        ("gemma-3", (896, 896), 417),
        ("llava-1.5", (336, 336), 304),
        ("qwen2-vl", (448, 448), 675),
        ("internvl", (448, 448), 304),
    ],
)
def test_encoders_have_the_parameters_that_their_authors_state(
    family: str, size: tuple[int, int], millions: float
) -> None:
    """Without attention's pairs an encoder does 2 operations per patch and parameter: within a tenth of the stated size."""
    rule = rule_of(family)
    assert rule is not None
    views = views_of(rule, *size)
    pairs = 4 * rule.encoder.width * rule.encoder.layers * sum(patches**2 for patches in views.patches)

    parameters = (encoder_flop(rule, views) - pairs) / (2 * sum(views.patches))

    assert parameters == pytest.approx(millions * 1e6, rel=0.1)


def test_windows_spare_attention() -> None:
    """Qwen2.5-VL looks at windows of 64 patches in 28 of 32 layers: over ten thousand patches cost half of Qwen2-VL's."""
    two, two_and_a_half = rule_of("qwen2-vl"), rule_of("Qwen2.5_VL")
    assert two is not None
    assert two_and_a_half is not None
    views = views_of(two, 1920, 1080)

    assert encoder_flop(two_and_a_half, views) < 0.55 * encoder_flop(two, views)


def test_an_image_that_is_none_is_refused() -> None:
    """No pixels, or a strip that Qwen's preprocessor refuses as well."""
    rule = rule_of("qwen2-vl")
    assert rule is not None

    with pytest.raises(ValueError, match="is none"):
        views_of(rule, 0, 5)
    with pytest.raises(ValueError, match="200:1"):
        views_of(rule, 2010, 10)
    assert rule_of("gpt-9") is None


def test_images_lengthen_the_prompt_and_come_off_again() -> None:
    """Two of 256 tokens at every percentile; the text is what was stated."""
    demand = with_images(TEXT, PICTURE)

    assert demand.prompt_tokens == Lengths(p50=532, p95=552)
    assert text_prompt(demand) == TEXT.prompt_tokens
    assert demand.needed_context_tokens == 602
    with pytest.raises(ValueError, match="added once"):
        with_images(demand, PICTURE)


def _parse(body: str) -> Demand:
    return parse_demand(f'[demand]\nkind = "interactive"\nprompt_tokens = 100\noutput_tokens = 50\nttft_s = 60\n{body}')


def test_a_demand_file_states_images() -> None:
    """Tokens and encoder by the rule of the family, and what is stated wins over it."""
    size = 'vision_model = "qwen2-vl"\nimage_width_px = 224\nimage_height_px = 224\n'
    by_rule = _parse(f"images_per_request = 3\n{size}")
    stated = _parse(f"images_per_request = 3\nimage_tokens = 100\n{size}")

    assert by_rule.images is not None
    assert stated.images is not None
    assert by_rule.prompt_tokens == Lengths(p50=100 + 3 * 64, p95=100 + 3 * 64)
    assert stated.prompt_tokens == Lengths(p50=400, p95=400)
    assert stated.images.encoder_flop_each == by_rule.images.encoder_flop_each > 1e11
    assert _parse("images_per_request = 1\nimage_tokens = 7\nimage_encoder_gflop = 0").images == ImageLoad(
        per_request=1, tokens_each=7, encoder_flop_each=0, encoder_bytes=None, source="stated"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("image_tokens = 5", "without 'images_per_request'"),
        ("images_per_request = 1", "state 'vision_model'"),
        ("images_per_request = 1\nimage_tokens = 5", "both 'image_tokens' and 'image_encoder_gflop'"),
        ('images_per_request = 1\nvision_model = "gpt-9"', "is not known here"),
        ('images_per_request = 1\nvision_model = "gemma-3"', "'image_width_px' and 'image_height_px'"),
        ('images_per_request = 1\nvision_model = "qwen2-vl"\nimage_width_px = 1\nimage_height_px = 9000', "200:1"),
        ("images_per_request = 1.5", "images_per_request"),
    ],
)
def test_images_that_are_half_stated_are_refused(body: str, words: str) -> None:
    """One sentence that says what is missing."""
    with pytest.raises(DemandError) as failure:
        _parse(body)

    assert words in str(failure.value)


def test_images_need_the_text_beside_them() -> None:
    """A prompt is images and text; a demand that states no prompt has no place for them."""
    with pytest.raises(DemandError, match="of the text alone"):
        parse_demand('[demand]\nkind = "interactive"\ntpot_s = 1\nimages_per_request = 1\nvision_model = "gemma-3"\n')


def test_an_encoder_is_worth_tokens_of_text() -> None:
    """1e13 operations beside a model of 2 billion parameters are 2,500 tokens, which 100 tokens/s read in 25 s."""
    machine = evidence_from(run_record(prefill=100.0))
    machine = replace(machine, active_parameters=2e9)

    assert encoder_tokens(PICTURE, machine) == 2500
    seconds = encoder_s(PICTURE, machine, 512)
    assert seconds is not None
    assert seconds.point == pytest.approx(25, rel=0.01)
    assert seconds.low is not None
    assert seconds.high is not None
    assert seconds.low < 25 / 2 < 2 * 25 < seconds.high
    assert with_encoder(Lengths(p50=10, p95=20), PICTURE, machine) == Lengths(p50=2510, p95=2520)
    assert encoder_tokens(None, machine) == 0


def test_images_add_to_the_time_to_first_token() -> None:
    """512 tokens and an encoder of 25 s at 100 tokens/s: 30 s more than the text alone, and the note says so."""
    machine = replace(evidence(prefill=100.0), active_parameters=2e9)
    plain, pictures = (
        next(one for one in constraints_for(demand, machine) if one.name == "ttft_s")
        for demand in (TEXT, with_images(TEXT, PICTURE))
    )

    assert plain.available is not None
    assert pictures.available is not None
    assert pictures.available.point == pytest.approx(plain.available.point + 5.12 + 25, rel=0.02)
    assert "2 images of 256 tokens (gemma-3)" in pictures.note
    assert "2,500 tokens of text" in pictures.note


def test_the_encoder_takes_memory_as_well() -> None:
    """Its weights in 16 bits stand beside those of the model; where nobody knows them, the note says that they are not counted."""
    machine = replace(evidence(), active_parameters=2e9)
    unknown = replace(PICTURE, encoder_bytes=None, source="stated")
    text = with_images(TEXT, replace(PICTURE, encoder_bytes=0.0))
    plain, pictures, left_out = (
        next(one for one in constraints_for(demand, machine) if one.name == "memory_bytes")
        for demand in (text, with_images(TEXT, PICTURE), with_images(TEXT, unknown))
    )

    assert plain.required is not None
    assert pictures.required == plain.required + 8e8
    assert left_out.required == plain.required
    assert "not counted" in left_out.note


def test_an_encoder_whose_time_is_not_known_leaves_the_first_token_open() -> None:
    """A record that does not say how many parameters its model has proves nothing about the encoder."""
    machine = replace(evidence(), active_parameters=None)
    small = replace(PICTURE, per_request=1, tokens_each=100)
    demand = with_images(replace(TEXT, ttft=Limit(value_s=1e6, percentile=95)), small)

    verdict = decide_machine(demand, machine)

    assert decide_machine(replace(demand, images=None), machine).grade is Grade.ENOUGH
    assert (verdict.grade, verdict.binding) == (Grade.OPEN, "ttft_s")


def test_a_queue_works_off_encoders_as_well() -> None:
    """Under a rate the prompts that are simulated hold the encoder's tokens; their cache does not."""
    machine = replace(evidence(), active_parameters=2e9)
    demand = replace(with_images(TEXT, PICTURE), kind=DemandKind.BATCH, ttft=None, requests_per_second=0.001)

    case = queue_case(demand, machine)

    assert case is not None
    assert case.prompt == Lengths(p50=532 + 2500, p95=552 + 2500)
    assert case.context == 602


def test_the_table_in_the_docs_is_what_the_rules_say() -> None:
    """Each family's row holds the tokens of three sizes, and both example and hand calculation are what comes out."""
    text = DOCS.read_text(encoding="utf-8")
    rows = [row.split("|")[1:-1] for row in text.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row[0])}

    assert named == set(rule_names())
    for row in rows:
        rule = rule_of(re.findall(r"`([^`]+)`", row[0])[0])
        assert rule is not None
        assert [int(cell) for cell in row[2:5]] == [
            views_of(rule, *size).tokens for size in ((224, 224), (1024, 768), (1920, 1080))
        ]


def test_the_example_in_the_docs_is_what_the_reader_makes_of_it() -> None:
    """200 tokens of text and 999 of the image, 5.40 TFLOP of encoder; and the hand calculation for Gemma 3."""
    text = DOCS.read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    demand, gemma = parse_demand(block), rule_of("gemma-3")
    assert demand.images is not None
    assert gemma is not None

    assert demand.prompt_tokens == Lengths(p50=1199, p95=1199)
    assert f"{demand.images.encoder_flop / TERA:.2f} TFLOP before" in text
    assert f"together {encoder_flop(gemma, views_of(gemma, 9, 9)) / TERA:.2f}." in text


def test_the_families_are_named_once() -> None:
    """Names are what a demand file takes, in any spelling."""
    assert len(set(rule_names())) == len(rule_names()) >= 10
    assert all(rule_of(name.upper()) is not None for name in rule_names())
