"""How items become tokens, on the fake's vocabulary of bytes, and chat templates as models bring them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from helpers.gguf_writer import Typed, write_gguf
from suffice.errors import ModelFileError, UsageError
from suffice.loaders.chat_template import ChatTemplate, read_chat_template
from suffice.measure.engine.fake_text import BOS, FAKE_TEMPLATE, FakeModel, FakeTextEngine, FakeTextSession
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.prompting import NO_TEMPLATE_NOTE, Prompting, common_length, lead_of
from suffice.model.items import Item, Message, Role, ScoreKind, ScoreRule

SETTINGS = EngineSettings(n_ctx=400, n_threads=1, n_threads_batch=1)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
USER = (Message(role=Role.USER, content="Hi"),)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_2 = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)


def template(source: str) -> ChatTemplate:
    """A template of a model named toy."""
    return ChatTemplate(name="toy", source=source, bos_text="<s>", eos_text="</s>", now=NOW)


def item(**fields: object) -> Item:
    """An item; what is not given does not matter."""
    choices = fields.get("choices")
    rule = ScoreRule(kind=ScoreKind.MULTIPLE_CHOICE if choices else ScoreKind.EXACT)
    return Item(**{"id": "1", "line": 1, "rule": rule, **fields})  # type: ignore[arg-type]


def session(*, adds_bos: bool = True) -> FakeTextSession:
    """The fake."""
    return FakeTextEngine(default=FakeModel(adds_bos=adds_bos)).open_text(Path("m.gguf"), SETTINGS)


def fake_template() -> ChatTemplate:
    """The fake's own template, with its beginning token in front, as many models have it."""
    return ChatTemplate(
        name="fake", source="{{ bos_token }}" + FAKE_TEMPLATE, bos_text="<|bos|>", eos_text="<|end|>", now=NOW
    )


def test_templates_render_as_transformers_renders_them() -> None:
    """ChatML and Llama 2's template give the texts of their models' cards."""
    assert template(CHATML).render(USER) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert template(LLAMA_2).render(USER) == "<s>[INST] Hi [/INST]"
    assert template(LLAMA_2).before_answer(USER) == " "
    assert template(CHATML).before_answer(USER) == ""


def test_what_templates_expect_is_there() -> None:
    """Blocks take their line ends along, tojson escapes no letters, the day is the given one, and loops can break."""
    source = (
        "{%- set ns = namespace(n=0) %}\n"
        "  {% for m in messages %}\n"
        "{{ m | tojson }}{{ strftime_now('%d %b %Y') }}{% break %}\n"
        "  {% endfor %}\n"
        "{% generation %}{{ 'ü<' | tojson }}{% endgeneration %}{{ tools is none }}{{ missing is defined }}"
    )
    given = (Message(role=Role.USER, content="é<b>"), Message(role=Role.ASSISTANT, content="x"))
    assert template(source).render(given) == '{"role": "user", "content": "é<b>"}01 Mar 2026"ü<"TrueFalse'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (LLAMA_2, "roles must alternate"),
        ("{{ messages[7].content.x }}", "no element 7"),
        ("{{ missing.attribute }}", "undefined"),
        ("{{ 'a' * 10 ** 12 }}", "bounds"),
        ("{{ 7 ** 99999999 }}", "bounds"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe|not safely"),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'abcdefgh' * 9999 }}{% endfor %}{% endfor %}",
            "without end",
        ),
        ("{{ 1 / 0 }}", "zero"),
        ("{{ 'a' + 1 }}", "str"),
    ],
)
def test_a_template_that_refuses_or_fails_says_why(source: str, words: str) -> None:
    """Its own words, the model's name and what to do; and no program in a template gets at anything or grows without end."""
    with pytest.raises(UsageError, match=f"toy .*({words})"):
        template(source).render((Message(role=Role.ASSISTANT, content="first"),))


def test_a_template_that_is_none_is_a_fault_of_the_file() -> None:
    """A syntax error names the model."""
    with pytest.raises(ModelFileError, match="chat template of toy is not valid"):
        template("{% for %}").render(USER)


def test_templates_are_read_from_the_file(tmp_path: Path) -> None:
    """The metadata's text; none where there is none; and what is no text is a fault."""
    base = {"general.architecture": "llama"}
    key = "tokenizer.chat_template"
    assert read_chat_template(write_gguf(tmp_path / "a.gguf", {**base, key: CHATML})) == CHATML
    assert read_chat_template(write_gguf(tmp_path / "b.gguf", base)) is None
    with pytest.raises(ModelFileError, match="is no text"):
        read_chat_template(write_gguf(tmp_path / "c.gguf", {**base, key: Typed("uint32", 7)}))


@pytest.mark.parametrize(
    ("prompt", "choice", "lead"),
    [
        ("Answer:", "yes", " "),
        ("Answer: ", "yes", ""),
        ("Answer:\n", "yes", ""),
        ("Answer:", " yes", ""),
        ("答案：", "正面", ""),
        ("答案：", "yes", ""),
        ("Answer:", "正面", ""),
        ("Is it (", "A)", ""),
        ("The end", ".", ""),
        ("It costs", "$5", " "),
        ('He said "no"', "loudly", " "),
    ],
)
def test_what_stands_between_prompt_and_choice(prompt: str, choice: str, lead: str) -> None:
    """A space where words are written with spaces, nothing where one would be wrong."""
    assert lead_of(prompt, choice) == lead


def test_a_prompt_is_read_as_it_stands_and_messages_go_through_the_template() -> None:
    """Control tokens in a user's prompt stay text; the template's are tokens, and the beginning token is there once."""
    opened = session()
    made = Prompting(opened, fake_template())
    raw = made.prompt(item(prompt="a<|end|>", stop=("\n",), max_tokens=7), 99)
    assert raw.tokens == (BOS, *b"a<|end|>")
    assert (raw.max_tokens, raw.stops) == (7, ("\n",))
    chat = made.prompt(item(messages=USER), 99)
    assert opened.text_of(chat.tokens, special=True) == "<|bos|><|user|>Hi<|assistant|>"
    assert chat.tokens.count(BOS) == 1
    assert chat.max_tokens == 99
    asked = Prompting(opened, fake_template(), chat_prompts=True)
    assert asked.prompt_text(item(prompt="Hi")) == "<|bos|><|user|>Hi<|assistant|>"


def test_without_a_template_messages_are_put_one_after_the_other_and_it_is_said() -> None:
    """The note stands only where it matters."""
    opened = session(adds_bos=False)
    made = Prompting(opened, None)
    messages = (Message(role=Role.SYSTEM, content="Be short."), *USER)
    assert made.prompt_text(item(messages=messages)) == "Be short.\n\nHi"
    assert made.notes([item(messages=messages)]) == (NO_TEMPLATE_NOTE,)
    assert made.notes([item(prompt="a")]) == ()
    assert Prompting(opened, fake_template()).notes([item(messages=messages)]) == ()


def test_choices_follow_the_prompt() -> None:
    """With the space that belongs there, or what the template puts; the prompt's tokens are shared by all."""
    opened = session()
    raw = Prompting(opened, None).question(item(prompt="A:", choices=("yes", "no")))
    assert raw.prefix == (BOS, *b"A:")
    assert raw.choices == (tuple(b" yes"), tuple(b" no"))
    spaced = ChatTemplate(name="t", source=LLAMA_2, bos_text="<|bos|>", eos_text="<|end|>", now=NOW)
    chat = Prompting(opened, spaced).question(item(messages=USER, choices=("yes", "no")))
    assert chat.choices == (tuple(b" yes"), tuple(b" no"))
    assert opened.text_of(chat.prefix, special=True) == "<|bos|>[INST] Hi [/INST]"


class Merging(FakeTextSession):
    """A tokenizer that makes one token of a space and the letter behind it."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Letters behind a space are numbered from 1000."""
        del add_special, parse_special
        tokens: list[int] = []
        for letter in text:
            if tokens and tokens[-1] == ord(" ") and letter.isalpha():
                tokens[-1] = 1000 + ord(letter)
            else:
                tokens.append(ord(letter))
        return tuple(tokens)


def test_a_token_that_changes_with_the_choice_counts_to_the_choices() -> None:
    """A space at the end of the prompt becomes part of the choice's first token, as it does in most vocabularies."""
    merging = Merging("m.gguf", FakeModel(), SETTINGS)
    made = Prompting(merging, None)
    for prompt in ("A: ", "A:"):
        question = made.question(item(prompt=prompt, choices=("yes", "no", "7")))
        assert question.prefix == tuple(b"A:")
        assert question.choices == ((1000 + ord("y"), *b"es"), (1000 + ord("n"), *b"o"), tuple(b" 7"))


def test_a_choice_that_the_prompt_holds_already_keeps_a_token() -> None:
    """Nothing is shared so far that a choice would be left with no token at all."""
    question = Prompting(session(), None).question(item(prompt="A ", choices=("", "b")))
    assert all(question.choices)
    assert common_length([(1, 2, 3), (1, 2), (1, 2, 9)]) == 2
