"""A model file that is asked here, in the engine's own process: choices are weighed, prompts are answered in slots."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from suffice.errors import EngineCrashError, EngineError
from suffice.loaders.answer_fields import whole_answer
from suffice.loaders.items import item_hash
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt
from suffice.measure.limits import read_cpu_limits, read_memory_limits
from suffice.model.answers import Answer, ChoiceLogprob, FinishReason
from suffice.quants.respondent import CUT_THOUGHT_NOTE, REASONING, THOUGHT_NOTE, AskOptions, different
from suffice.quants.room import Memory, room_for
from suffice.quants.thinking import HiddenMarks, opens_thought, split_thought
from suffice.quants.tokens import TokenMaker, problem_of, template_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import TracebackType

    from suffice.measure.engine.text_seam import TextAnswer, TextEngine, TextSession
    from suffice.model.items import Item
    from suffice.model.quants import Subject
    from suffice.quants.subjects import LocalModel
    from suffice.quants.tokens import TokenBook

_FIRST_CONTEXT: Final = 256  # tokens, until it is known how many are needed
_LAST_TOKENS: Final = 16  # of a prompt: more than the longest mark of a thought has
_TOGETHER: Final = 32  # answers that wait for each other where marks of thoughts have no text
_COMPANY: Final = 128  # questions that are always read together, also when a run goes on with some of them


class LocalRespondent:
    """Asks a GGUF file through a :class:`~suffice.measure.engine.text_seam.TextEngine`.

    All items are made tokens first, which tells how long the context must be. Choices are asked in fixed groups, so that a run that
    goes on after a kill gives what it would have given without: what is read together is rounded together.
    """

    def __init__(
        self,
        engine: TextEngine,
        model: LocalModel,
        items: Sequence[Item],
        options: AskOptions | None = None,
        *,
        book: TokenBook | None = None,
        usable_bytes: int | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open the model.

        Args:
            engine: where it runs.
            model: the file.
            items: all that will be asked, also in an earlier run.
            options: how.
            book: the reference's tokens; used where the vocabulary is the same.
            usable_bytes: of memory; None: as much as there is now.
            progress: what takes time.

        Raises:
            EngineError: the model does not fit into memory, or the engine refuses it.
        """
        self._engine, self._model, self._options = engine, model, options or AskOptions()
        self._notes: list[str] = []
        self._thoughts = self._cut_thoughts = 0
        usable = read_memory_limits().usable_bytes if usable_bytes is None else usable_bytes
        self._memory = Memory(shape=model.shape, usable_bytes=usable)
        self._memory.check_weights(model.subject.name)
        threads = self._options.threads or read_cpu_limits().usable_cpus
        self._plan = EngineSettings(n_ctx=_FIRST_CONTEXT, n_threads=threads, n_threads_batch=threads)
        progress(f"{model.subject.name}: loading the model")
        self._session: TextSession = engine.open_text(model.path, self._plan)
        try:
            self.book = self._book_for(items, book, progress)
            self._order = list(different(items))
            self._make_room()
            self._settings = self._deciding()
        except BaseException:
            self._session.close()
            raise

    @property
    def subject(self) -> Subject:
        """The file."""
        return self._model.subject

    @property
    def settings(self) -> Mapping[str, object]:
        """Tokens, engine and session; see :class:`~suffice.quants.respondent.Respondent`."""
        return self._settings

    @property
    def notes(self) -> tuple[str, ...]:
        """How it is asked, and what was counted meanwhile."""
        counts = {THOUGHT_NOTE: self._thoughts, CUT_THOUGHT_NOTE: self._cut_thoughts}
        counted = [note.format(count) for note, count in counts.items() if count]
        return tuple(dict.fromkeys([*self._notes, *counted]))

    @property
    def session(self) -> TextSession:
        """The open session, for whoever wants more of it between two calls of :meth:`ask`."""
        return self._session

    def ask(self, items: Sequence[Item]) -> Iterator[Answer]:
        """Choices first, then prompts; see the seam. An engine that died is started once more."""
        self._learn(items)
        todo = different(items)
        yield from self._refused(todo)
        problem = yield from self._pass(todo)
        if problem is not None and todo:
            problem = self._reopen(problem)
            if problem is None:
                problem = yield from self._pass(todo)
        for asked, item in todo.items():
            yield Answer(item_id=item.id, item_hash=asked, error=problem)

    def _learn(self, items: Sequence[Item]) -> None:
        """Items that were not there when the model was opened; they come last, in companies of their own."""
        new = [item for item in items if item_hash(item) not in self.book.entries]
        if new:
            self._maker().add(self.book, new)
        known = set(self._order)
        self._order += [asked for asked in different(items) if asked not in known]

    def _refused(self, todo: dict[str, Item]) -> Iterator[Answer]:
        """Take out what cannot be asked, with the reason."""
        for asked, item in tuple(todo.items()):
            problem = problem_of(self.book.entries[asked], self._context)
            if problem is not None:
                del todo[asked]
                yield Answer(item_id=item.id, item_hash=asked, error=problem)

    def _pass(self, todo: dict[str, Item]) -> Generator[Answer, None, str | None]:
        """Answers as they come, each taken out of what is to do; the engine's words where it failed."""
        try:
            for answer in itertools.chain(self._weighed(todo), self._written(todo)):
                del todo[answer.item_hash]
                yield answer
        except EngineError as error:
            return str(error)
        return None

    def _weighed(self, todo: Mapping[str, Item]) -> Iterator[Answer]:
        """Choices, in companies that are always the same: the whole of each is asked, whoever in it is wanted."""
        entries = self.book.entries
        questions = [
            (asked, entry)
            for asked in self._order
            if isinstance(entry := entries[asked], ChoiceQuestion) and problem_of(entry, self._context) is None
        ]
        for start in range(0, len(questions), _COMPANY):
            company = questions[start : start + _COMPANY]
            wanted = {asked for asked, _ in company if asked in todo}
            if not wanted:
                continue
            found = self._session.choice_logprobs(entry for _, entry in company)
            for (asked, entry), logprobs in zip(company, found, strict=True):
                if asked in wanted:
                    yield _choices_answer(todo[asked], asked, entry, logprobs)

    def _written(self, todo: Mapping[str, Item]) -> Iterator[Answer]:
        """Prompts, in slots."""
        entries = self.book.entries
        prompts = [(asked, item, entry) for asked, item in todo.items() if isinstance(entry := entries[asked], Prompt)]
        if not prompts:
            return
        marks = HiddenMarks(self._session)
        together = _TOGETHER if marks else len(prompts)
        for start in range(0, len(prompts), together):
            yield from self._written_together(prompts[start : start + together], marks)

    def _written_together(self, prompts: Sequence[tuple[str, Item, Prompt]], marks: HiddenMarks) -> Iterator[Answer]:
        """Nothing else can be asked of the session while answers come, so that some have to wait for their text until all are there."""
        opened = [self._opens_thought(entry) for _, _, entry in prompts]
        late = []
        for found in self._session.answers(entry for _, _, entry in prompts):
            if marks.are_in(found.tokens):
                late.append(found)
            else:
                yield self._text_answer(*prompts[found.index], found, opened=opened[found.index])
        for found in late:
            shown = replace(found, text=marks.text_of(found.tokens, prompts[found.index][2].stops))
            yield self._text_answer(*prompts[found.index], shown, opened=opened[found.index])

    def _opens_thought(self, prompt: Prompt) -> bool:
        return opens_thought(self._session.text_of(prompt.tokens[-_LAST_TOKENS:], special=True))

    def _text_answer(self, asked: str, item: Item, prompt: Prompt, found: TextAnswer, *, opened: bool) -> Answer:
        said = split_thought(found.text, opened=opened)
        self._thoughts += said.thought
        self._cut_thoughts += said.thought and not said.answer and found.finish is FinishReason.LENGTH
        # Servers count the token that ends an answer. Of items with stops it is not known whether there was one.
        ended = found.finish is FinishReason.STOP and not item.stop
        return whole_answer(
            Answer(
                item_id=item.id,
                item_hash=asked,
                text=said.answer,
                finish=found.finish,
                tokens=len(found.tokens) + ended,
                prompt_tokens=len(prompt.tokens),
            )
        )

    def _reopen(self, problem: str) -> str | None:
        """Start the engine again after it failed; None, or why that failed as well."""
        self._session.close()
        try:
            self._session = self._engine.open_text(self._model.path, self._plan)
            self._session.resize(self._room.n_ctx, self._slots_to_open)
        except EngineError as error:
            return f"{problem}; starting it again failed: {error}"
        self._notes.append(f"the engine failed while it was asked ({problem}), and was started again")
        return None

    def _maker(self) -> TokenMaker:
        return TokenMaker(self._session, self._model.subject.name, self._model.template, self._options)

    def _book_for(self, items: Sequence[Item], book: TokenBook | None, progress: Callable[[str], None]) -> TokenBook:
        """The book that was given where its tokens mean the same here, else one of the model's own."""
        maker = self._maker()
        if book is None:
            return maker.book(items, progress)
        if book.vocabulary_sha256 != self._session.facts.vocabulary.sha256:
            self._notes.append(
                f"its vocabulary is not that of {book.made_by}: it is asked the same texts with its own tokenizer and template"
            )
            return maker.book(items, progress)
        if book.template_sha256 != template_hash(self._model.template):
            self._notes.append(f"its chat template is not that of {book.made_by}, whose tokens it is asked")
        maker.add(book, items, progress)
        return book

    def _make_room(self) -> None:
        """Size the context for the longest item; fewer slots where memory has no room for as many."""
        entries = [self.book.entries[asked] for asked in self._order]
        self._has_prompts = any(isinstance(entry, Prompt) for entry in entries)
        trained = self._session.facts.session.n_ctx_train
        self._room = room_for(entries, self._memory, self._plan, slots=self._options.slots, trained=trained)
        self._notes += [*self.book.notes, *self._room.notes]
        while True:
            try:
                self._session.resize(self._room.n_ctx, self._slots_to_open)
            except EngineCrashError:
                raise
            except EngineError as error:
                if self._slots_to_open == 1:
                    raise
                self._room = replace(self._room, slots=self._room.slots // 2)
                slots = "one slot" if self._room.slots == 1 else f"{self._room.slots} slots"
                self._notes.append(f"the engine had no room for more than {slots} ({error})")
            else:
                break
        self._context = min(self._room.n_ctx, trained or self._room.n_ctx)

    @property
    def _slots_to_open(self) -> int:
        """One where nothing is written: slots only matter to answers, and each has a cache of its own."""
        needs = self._has_prompts or not self._session.facts.shares_prefixes
        return self._room.slots if needs else 1

    def _deciding(self) -> dict[str, object]:
        """What decides the answers beside the model and the items."""
        identity, facts = self._engine.identity, self._session.facts
        resolved = facts.session.resolved
        return {
            "asked": "engine",
            "reasoning": REASONING,
            **self.book.settings,
            "engine": identity.name,
            "engine_version": identity.version,
            "llama_cpp_version": identity.llama_cpp_version,
            "instructions": sorted(identity.isa_used),
            "threads": self._plan.n_threads,
            "slots": self._room.slots,
            "n_batch": self._plan.n_batch,
            "n_ubatch": self._plan.n_ubatch,
            "type_k": self._plan.type_k,
            "type_v": self._plan.type_v,
            "flash_attention": resolved.flash_attention,
            "context_limit": self._room.limit,
        }

    def close(self) -> None:
        """End the engine's process."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _choices_answer(item: Item, asked: str, question: ChoiceQuestion, logprobs: Sequence[Sequence[float]]) -> Answer:
    return Answer(
        item_id=item.id,
        item_hash=asked,
        finish=FinishReason.CHOICES,
        prompt_tokens=len(question.prefix),
        choices=tuple(ChoiceLogprob(total=math.fsum(values), tokens=len(values)) for values in logprobs),
    )
