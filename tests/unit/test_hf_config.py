from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from suffice.catalogue.models import model_named
from suffice.errors import ModelFileError, UsageError
from suffice.loaders.hf_config import read_config, spec_from_config
from suffice.loaders.hf_families import ALIASES, CLASSES, FAMILIES, REFUSED, WRAPPERS
from suffice.loaders.hub import spec_from_hub
from suffice.model.spec import Experts, FeedForward, LatentAttention, ModelSpec

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
TINY: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


def spec_of(**fields: object) -> ModelSpec:
    """The shape of a tiny model with these fields changed."""
    return spec_from_config(TINY | fields, name="tiny")


def refusal(**fields: object) -> str:
    """The one sentence with which such a config is refused."""
    with pytest.raises(ModelFileError) as caught:
        spec_of(**fields)
    message = str(caught.value)
    assert message.startswith("config of tiny: ")
    assert "\n" not in message
    assert len(message) < 1000
    return message


# What a config says and the catalogue does not: facts of the rotary embedding, which change no count of parameters.
_ROPE_FACTS = {"rope_factors", "rope_context", "rope_share"}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_config_says_what_the_catalogue_says(path: Path) -> None:
    """For every model whose config is at hand, config and catalogue give one shape."""
    expected, found = model_named(path.stem).spec, read_config(path)

    facts = {key: value for key, value in found.extra.items() if key in expected.extra or key not in _ROPE_FACTS}
    window = (
        expected.sliding_window if path.stem == "phi-3-mini-4k" else found.sliding_window
    )  # 2047 or 2048: ignored by llama.cpp

    assert replace(found, extra=facts, sliding_window=window) == expected


def test_llama_with_grouped_heads_and_stored_rope_factors() -> None:
    """Llama 3.1 8B comes out field by field, with the frequency factors that its GGUF files store."""
    assert read_config(CONFIGS / "llama-3.1-8b.json") == ModelSpec(
        name="llama-3.1-8b",
        architecture="llama",
        n_layer=32,
        n_embd=4096,
        n_head=32,
        n_head_kv=8,
        head_length=128,
        n_vocab=128256,
        tied=False,
        n_ff=14336,
        context_length=131072,
        extra={"rope_factors": "llama3"},
    )


def test_latent_attention_with_shared_experts() -> None:
    """DeepSeek-V2-Lite: no compressed queries although the library's default has them, one dense layer, two shared experts."""
    assert read_config(CONFIGS / "deepseek-v2-lite.json") == ModelSpec(
        name="deepseek-v2-lite",
        architecture="deepseek2",
        n_layer=27,
        n_embd=2048,
        n_head=16,
        n_head_kv=16,
        head_length=192,
        n_vocab=102400,
        tied=False,
        n_ff=10944,
        context_length=163840,
        latent=LatentAttention(kv_rank=512, rope_length=64, nope_length=128, value_length=128),
        experts=Experts(n_expert=64, n_used=6, n_ff=1408, n_shared=2, n_dense_first=1),
    )


def test_nested_config_takes_the_rest_from_the_library() -> None:
    """Gemma 3 4B states five numbers; heads, head length, vocabulary, context and tied embeddings are the library's."""
    assert read_config(CONFIGS / "gemma-3-4b.json") == ModelSpec(
        name="gemma-3-4b",
        architecture="gemma3",
        n_layer=34,
        n_embd=2560,
        n_head=8,
        n_head_kv=4,
        head_length=256,
        n_vocab=262208,
        tied=True,
        n_ff=10240,
        feed_forward=FeedForward.GEGLU,
        context_length=131072,
        sliding_window=1024,
        sliding_pattern="5L:1G",
        extra={"norms": "4", "qk_norm": "head"},
    )


def test_experts_of_which_no_layer_is_dense() -> None:
    """Qwen3-30B-A3B has a width of dense layers in its config that no layer uses; it is not part of the shape."""
    found = read_config(CONFIGS / "qwen3-30b-a3b.json")

    assert (found.architecture, found.n_ff, found.head_length) == ("qwen3moe", None, 128)
    assert found.experts == Experts(n_expert=128, n_used=8, n_ff=768)


def test_experts_in_every_second_layer() -> None:
    """Llama 4 Maverick: experts in 24 of 48 layers, chunks in three of four, the wide part for dense layers."""
    found = read_config(CONFIGS / "llama-4-maverick.json")

    assert (found.n_ff, found.sliding_window, found.sliding_pattern) == (16384, 8192, "3C:1G")
    assert found.experts == Experts(n_expert=128, n_used=1, n_ff=8192, n_shared=1)
    assert found.extra == {"n_moe_layers": "24", "n_dense_layers": "24"}


@pytest.mark.parametrize(
    ("name", "window", "pattern"),
    [
        ("mistral-7b-v0.1", 4096, "all"),
        ("mistral-7b-v0.3", None, None),
        ("qwen2.5-0.5b", None, None),
        ("phi-3-mini-4k", 2047, "all"),
        ("gemma-2-2b", 4096, "1L:1G"),
        ("gpt-oss-20b", 128, "1L:1G"),
        ("olmo3-32b", 4096, "3L:1G"),
        ("olmo2-7b", None, None),
    ],
)
def test_sliding_windows(name: str, window: int | None, pattern: str | None) -> None:
    """A window counts where the model uses it: null, a switch that is off, and a list of layers are told apart."""
    found = read_config(CONFIGS / f"{name}.json")

    assert (found.sliding_window, found.sliding_pattern) == (window, pattern)


def test_quantized_weights_change_no_shape() -> None:
    """A config with a quantization_config gives the same shape as without."""
    document = json.loads((CONFIGS / "gpt-oss-20b.json").read_text(encoding="utf-8"))
    plain = {key: value for key, value in document.items() if key != "quantization_config"}

    assert spec_from_config(document, name="x") == spec_from_config(plain, name="x")


@pytest.mark.parametrize(
    ("fields", "attribute", "expected"),
    [
        ({}, "n_head_kv", 4),
        ({"num_key_value_heads": None}, "n_head_kv", 4),
        ({"model_type": "mistral"}, "n_head_kv", 4),  # the library has 8, more than there are heads
        ({"model_type": "glm4"}, "n_head_kv", 2),
        ({"model_type": "falcon"}, "n_head_kv", 1),
        ({"model_type": "falcon", "multi_query": False}, "n_head_kv", 4),
        ({"model_type": "falcon", "intermediate_size": None}, "n_ff", 256),
        ({}, "head_length", 16),
        ({"head_dim": 32}, "head_length", 32),
        ({"model_type": "qwen3"}, "head_length", 128),
        ({"model_type": "qwen3", "head_dim": None}, "head_length", 16),
        ({}, "tied", False),
        ({"model_type": "smollm3", "num_key_value_heads": 2}, "tied", True),
        ({"model_type": "minicpm"}, "tied", True),
        ({"model_type": "gemma", "num_key_value_heads": 1, "tie_word_embeddings": False}, "tied", False),
        ({}, "qkv_bias", False),
        ({"attention_bias": True}, "qkv_bias", True),
        ({"attention_bias": True, "mlp_bias": True}, "extra", {"o_bias": "1", "mlp_bias": "1"}),
        ({"model_type": "qwen2"}, "qkv_bias", True),
        ({"model_type": "stablelm", "use_qkv_bias": True}, "qkv_bias", True),
        ({"model_type": "stablelm", "partial_rotary_factor": 0.25}, "extra", {"norm_bias": "1", "rope_share": "0.25"}),
        ({"model_type": "invented", "architectures": ["Phi3ForCausalLM"]}, "architecture", "phi3"),
        ({"sliding_window": 9, "model_type": "gemma2", "layer_types": ["full_attention"] * 2, "num_key_value_heads": 2}, "sliding_window", None),
    ],
)  # fmt: skip
def test_what_is_absent_is_what_the_library_has(fields: dict[str, object], attribute: str, expected: object) -> None:
    """An absent field has the default of its class, a null field none, and a stated one counts."""
    if fields == {"model_type": "mistral"}:
        assert "must be from 1 to 4" in refusal(**fields)
    else:
        assert getattr(spec_of(**fields), attribute) == expected


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_size": None}, "field 'hidden_size' is missing"),
        ({"hidden_size": 64.0}, "field 'hidden_size' must be a whole number, but is 64.0"),
        ({"hidden_size": "64"}, "must be a whole number, but is '64'"),
        ({"hidden_size": True}, "must be a whole number, but is True"),
        ({"hidden_size": -64}, "must be from 1 to"),
        ({"hidden_size": 0}, "must be from 1 to"),
        ({"hidden_size": 10**12}, "must be from 1 to"),
        ({"vocab_size": 1 << 24}, "field 'vocab_size' must be from 1 to"),
        ({"hidden_size": 10**5000}, "a far larger number"),
        ({"hidden_size": 65}, "no multiple of the 4 heads"),
        ({"hidden_size": [64] * 100_000}, "must be a whole number"),
        ({"num_hidden_layers": 100_000}, "field 'num_hidden_layers' must be from 1 to 512"),
        ({"num_key_value_heads": 3}, "does not divide the 4 heads"),
        ({"vocab_size": float("nan")}, "must be a whole number, but is nan"),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
        ({"model_type": 7}, "field 'model_type' must be a text"),
        ({"model_type": None}, "is None, which suffice does not know"),
        ({"model_type": "mamba"}, "is 'mamba', which suffice does not know; it knows baichuan, chatglm"),
        ({"model_type": "x" * 10_000}, "does not know"),
        ({"model_type": "lfm2"}, "cannot be described"),
        ({"architectures": "LlamaForCausalLM", "model_type": None}, "must be a list"),
        ({"text_config": []}, "field 'text_config' must be a table"),
        ({"text_config": {"model_type": "llama"}}, "field 'text_config.num_attention_heads' is missing"),
        ({"hidden_act": "relu2"}, "is 'relu2', and llama.cpp's llama has another one"),
        ({"num_local_experts": 8}, "announces experts"),
        ({"rope_scaling": "linear"}, "field 'rope_scaling' must be a table"),
        ({"partial_rotary_factor": 7}, "above 0 and at most 1"),
        ({"model_type": "phi", "qk_layernorm": True, "hidden_act": "gelu"}, "llama.cpp's phi2 cannot express"),
        ({"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True}, "has no sliding window"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [1]}, "single layers without experts"),
        ({"model_type": "mixtral", "num_key_value_heads": 4, "num_experts_per_tok": 9}, "must be from 1 to 8"),
        ({"model_type": "olmo3", "layer_types": ["full_attention"]}, "has 1 entries for 2 layers"),
        ({"model_type": "olmo3", "layer_types": ["full_attention", "sliding_attention"]}, "irregularly"),
        ({"model_type": "olmo3", "layer_types": ["mamba", "full_attention"]}, "holds 'mamba'"),
        ({"model_type": "olmo3", "layer_types": [None, 1]}, "holds something else"),
        ({"model_type": "olmo3", "layer_types": ["full_attention"] * 5000}, "at most 512"),
    ],
)
def test_configs_that_cannot_be_used(fields: dict[str, object], words: str) -> None:
    """Missing, wrong, absurd and unsupported fields end in one sentence that names the field."""
    assert words in refusal(**fields)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not valid JSON"),
        (b"[1, 2]", "holds no JSON object"),
        (b'{"hidden_size": NaN}', "NaN is no number"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{" + b" " * 5_000_000 + b"}", "more than the"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, content: bytes, words: str) -> None:
    """Any other file ends in one sentence that names it."""
    path = tmp_path / "config.json"
    path.write_bytes(content)

    with pytest.raises(ModelFileError) as caught:
        read_config(tmp_path)

    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_config_is_named(tmp_path: Path) -> None:
    """A folder without a config.json says so."""
    with pytest.raises(ModelFileError, match=r"config\.json does not exist"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("Llama-3.1-8B/config.json", "Llama-3.1-8B"),
        ("models--meta--Llama-3.1-8B/snapshots/0123abcd/config.json", "Llama-3.1-8B"),
        ("folder/mine.json", "mine"),
    ],
)
def test_name_comes_from_the_place(tmp_path: Path, place: str, name: str) -> None:
    """The model is called like its folder, like its repository in a cache, or like a file of its own name."""
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(TINY), encoding="utf-8")

    assert read_config(path).name == name


def test_tables_of_families_agree() -> None:
    """Every other name leads to a family that exists, and none is both read and refused."""
    targets = {*ALIASES.values(), *CLASSES.values(), *WRAPPERS.values()}

    assert targets <= FAMILIES.keys()
    assert not FAMILIES.keys() & REFUSED.keys()
    assert not FAMILIES.keys() & ALIASES.keys()


def test_hub_names_the_model_after_its_repository() -> None:
    """What is fetched is read like a file; the name is that of the repository."""
    asked: list[str] = []

    def fetch(repo_id: str) -> Path:
        asked.append(repo_id)
        return CONFIGS / "qwen3-8b.json"

    assert spec_from_hub("Qwen/Qwen3-8B", fetch_config=fetch).name == "Qwen3-8B"
    assert asked == ["Qwen/Qwen3-8B"]


@pytest.mark.parametrize("repo_id", ["", "qwen", "a/b/c", "../etc", "a/..", "https://x/y", "a b/c", "x" * 1000 + "/y"])
def test_hub_refuses_other_names(repo_id: str) -> None:
    """What cannot be a repository is refused before anything is fetched."""
    with pytest.raises(UsageError, match="is no name of a repository"):
        spec_from_hub(repo_id, fetch_config=lambda _: pytest.fail("nothing is to be fetched"))


def test_hub_names_the_repository_of_a_bad_config(tmp_path: Path) -> None:
    """A config that cannot be used is named by its repository, not by a path in a cache."""
    path = tmp_path / "config.json"
    path.write_text("{}", encoding="utf-8")

    with pytest.raises(ModelFileError, match=r"^config\.json of a/b: "):
        spec_from_hub("a/b", fetch_config=lambda _: path)


HUB_ERRORS = (
    "GatedRepoError",
    "RepositoryNotFoundError",
    "LocalEntryNotFoundError",
    "EntryNotFoundError",
    "HfHubHTTPError",
)


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("GatedRepoError", "a/b is gated"),
        ("RepositoryNotFoundError", "a/b does not exist or is private"),
        ("LocalEntryNotFoundError", "a/b cannot be reached"),
        ("EntryNotFoundError", "a/b has no config.json"),
        ("HfHubHTTPError", "a/b cannot be read (status unknown)"),
        ("OSError", "a/b cannot be read (OSError)"),
    ],
)
def test_hub_errors_are_one_sentence_without_the_token(
    monkeypatch: pytest.MonkeyPatch, raised: str, words: str
) -> None:
    """Whatever the hub's library raises becomes a sentence of our own, and none of its text is passed on."""
    errors = ModuleType("huggingface_hub.errors")
    for name in HUB_ERRORS:
        setattr(errors, name, type(name, (Exception,), {}))
    hub = ModuleType("huggingface_hub")

    def download(repo_id: str, file_name: str) -> str:
        assert (repo_id, file_name) == ("a/b", "config.json")
        raise getattr(errors, raised, OSError)("https://user:hf_secret@huggingface.co")

    hub.hf_hub_download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)

    with pytest.raises(ModelFileError) as caught:
        spec_from_hub("a/b")

    assert words in str(caught.value)
    assert "hf_secret" not in str(caught.value)


def test_hub_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without huggingface_hub the message has the command that installs it."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    with pytest.raises(UsageError, match=r"pip install 'suffice\[hub\]'"):
        spec_from_hub("a/b")
