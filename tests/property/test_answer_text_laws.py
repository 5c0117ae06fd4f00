"""Laws of texts that models write: whatever they are, they can be kept, and only thoughts are taken from them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.loaders.answer_fields import whole_text
from suffice.quants.thinking import split_thought

MARKS = ("<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>", "final<|message|>", "\n", "x", "\ud83d", "\ude00")
TEXTS = st.lists(st.sampled_from(MARKS) | st.characters(), max_size=12).map("".join)


@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_whole_texts_can_be_written(text: str) -> None:
    """A whole text has a form in UTF-8, stays as it is when it is made whole again, and is the same where nothing was broken."""
    whole = whole_text(text)

    assert whole.encode().decode() == whole == whole_text(whole)
    assert whole == text or any("\ud800" <= character <= "\udfff" for character in text)


@given(text=TEXTS, answer=st.text(alphabet="ab c", min_size=1).map(str.strip).filter(bool))
@settings(max_examples=150, deadline=None)
def test_an_answer_is_the_end_of_its_text(text: str, answer: str) -> None:
    """What is left is all of the text or its end, and an answer behind a thought comes out of any."""
    said = split_thought(text)

    assert said.answer == text or text.rstrip().removesuffix("<|end|>").endswith(said.answer.rstrip())
    inner = text.replace("</think>", "")
    assert split_thought(f"<think>{inner}</think>\n{answer}").answer == answer
