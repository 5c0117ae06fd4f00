"""A server with the OpenAI interface that is asked: llama-server, vLLM, SGLang, Ollama and the like."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from suffice.load.endpoint import endpoint_of, key_from
from suffice.load.runner import new_client
from suffice.load.settings import Api
from suffice.loaders.answer_fields import whole_answer
from suffice.model.answers import Answer, FinishReason
from suffice.model.items import Message, Role
from suffice.model.quants import Subject, SubjectKind
from suffice.quants.respondent import CUT_THOUGHT_NOTE, REASONING, THOUGHT_NOTE, AskOptions, different, listed
from suffice.quants.server_look import SEED, look, model_name, persistent
from suffice.quants.server_wire import Trouble, without_key
from suffice.quants.thinking import opens_thought, split_thought
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    import httpx

    from suffice.load.answer import Delta
    from suffice.load.endpoint import Endpoint
    from suffice.model.items import Item
    from suffice.quants.server_look import Look

KEY_VARIABLE: Final = "SUFFICE_API_KEY"
NO_COMPLETIONS_NOTE: Final = (
    "the server has no /completions: prompts are asked as the message of a user, through its chat template"
)
NO_CHAT_NOTE: Final = (
    "the server has no /chat/completions: the messages of an item stand one after the other, with a blank line between"
)
NO_SEED_NOTE: Final = "the server takes no seed: temperature 0 alone makes its answers repeatable"
OTHER_MODEL_NOTE: Final = "it was asked for the model {}, and says that another one answered: {}"
PASSWORD_WARNING: Final = (
    f"the name and password in the URL are not sent; put a key into the environment variable {KEY_VARIABLE}"
)
_PAUSES_S: Final = (0.5, 2.0)
_CONNECT_S: Final = 10.0
_MOST_NAME_CHARACTERS: Final = 200
_MOST_REFUSALS: Final = 8  # in a row, after which a server is taken to have gone
_MOST_OTHERS: Final = 3
_BETWEEN_MESSAGES: Final = "\n\n"
_FINISHES: Final = {"length": FinishReason.LENGTH, "stop": FinishReason.STOP}


def server_endpoint(
    url: str, *, model: str | None = None, ca_file: Path | None = None
) -> tuple[Endpoint, tuple[str, ...]]:
    """A server's address with the key in SUFFICE_API_KEY, where that is set, and warnings about the address.

    Raises:
        UsageError: no address of a server, or the variable holds what no header may hold. Neither key nor password is ever repeated.
    """
    key = key_from(KEY_VARIABLE) if os.environ.get(KEY_VARIABLE, "").strip() else None
    endpoint, warnings = endpoint_of(url, Api.CHAT, model, key, ca_file=ca_file)
    return endpoint, (PASSWORD_WARNING,) if warnings else ()


class ServerRespondent:
    """Asks a server, greedily, as many items at a time as there are slots.

    ``messages`` go to /chat/completions, prompts to /completions, or as the message of a user where that is wanted or the server has no
    other way. A connection that fails is tried again, twice; what a server refuses is the item's error. Redirects are not followed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        items: Sequence[Item],
        options: AskOptions | None = None,
        *,
        name: str | None = None,
        warnings: Sequence[str] = (),
        pauses_s: Sequence[float] = _PAUSES_S,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Look at the server.

        Args:
            endpoint: its address and key, see :func:`server_endpoint`; without a model's name, the first one that it lists is asked.
            items: all that will be asked, also in an earlier run: they decide which interfaces are needed.
            options: how; threads do not matter.
            name: for people; without it the model's name.
            warnings: about the address.
            pauses_s: before each further try after a connection failed.
            progress: what takes time.

        Raises:
            UsageError: nobody there, access refused, or no such interface.
        """
        self._options, self._pauses_s = options or AskOptions(), tuple(pauses_s)
        progress(f"looking at {endpoint.base}")
        self._look = asyncio.run(self._first_look(endpoint, {self._way(item) for item in items}))
        self._endpoint = self._look.endpoint
        self._counts: Counter[str] = Counter()
        self._others: dict[str, None] = {}  # names of models that answered in place of the one that was asked
        self._refused_in_a_row = 0
        self._fixed_notes = self._look_notes(items)
        shown = self._shown(self._endpoint.model or "a model without a name")
        parts = [self._endpoint.base, shown, self._look.fingerprint]
        self._subject = Subject(
            name=name or model_name(shown) or shown,  # many are called by the path of their file
            kind=SubjectKind.SERVER,
            place=self._endpoint.base,
            identity=" ".join(part for part in parts if part),
            warnings=tuple(warnings),
        )

    def _shown(self, model: str) -> str:
        """A model's name as the server writes it, fit to be shown."""
        return one_line(without_key(model, self._endpoint))[:_MOST_NAME_CHARACTERS]

    async def _first_look(self, endpoint: Endpoint, wanted: set[Api]) -> Look:
        async with new_client(endpoint, _CONNECT_S) as client:
            return await look(client, endpoint, wanted or {Api.CHAT}, self._options.timeout_s, self._pauses_s)

    @property
    def subject(self) -> Subject:
        """The server and its model."""
        return self._subject

    @property
    def settings(self) -> Mapping[str, object]:
        """See :class:`~suffice.quants.respondent.Respondent`."""
        return {
            "asked": "server",
            "chat_prompts": self._options.chat_prompts,
            "prompts_through": Api.COMPLETIONS if self._look.has_completions else Api.CHAT,
            "messages_through": Api.CHAT if self._look.has_chat else Api.COMPLETIONS,
            "choices_as_text": True,
            "max_tokens": self._options.max_tokens,
            "temperature": 0,
            "seed": SEED if self._look.takes_seed else None,
            "reasoning": REASONING,
            "slots": self._options.slots,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """How it is asked, and what was counted meanwhile."""
        words = {
            "retries": "further tries after a connection had failed, or the server was not ready: {}",
            "reasoning": THOUGHT_NOTE,
            "cut": CUT_THOUGHT_NOTE,
        }
        counted = [text.format(self._counts[name]) for name, text in words.items() if self._counts[name]]
        others = (
            [OTHER_MODEL_NOTE.format(self._shown(self._endpoint.model or ""), ", ".join(self._others))]
            if self._others
            else []
        )
        return (*self._fixed_notes, *counted, *others)

    def ask(self, items: Sequence[Item]) -> Iterator[Answer]:
        """As many at a time as there are slots; see the seam."""
        todo = deque(different(items).items())
        running: set[asyncio.Task[Answer]] = set()
        with asyncio.Runner() as runner:
            client = new_client(self._endpoint, _CONNECT_S)
            try:
                while todo or running:
                    yield from runner.run(self._advance(client, todo, running))
            finally:
                runner.run(_stop(client, running))

    async def _advance(
        self, client: httpx.AsyncClient, todo: deque[tuple[str, Item]], running: set[asyncio.Task[Answer]]
    ) -> list[Answer]:
        """Fill the slots, and wait for the first that are finished."""
        while todo and len(running) < self._options.slots:
            running.add(asyncio.create_task(self._answer(client, *todo.popleft())))
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        running -= done
        return [task.result() for task in done]

    async def _answer(self, client: httpx.AsyncClient, asked: str, item: Item) -> Answer:
        if self._refused_in_a_row >= max(_MOST_REFUSALS, 2 * self._options.slots):
            gone = f"not asked: {self._refused_in_a_row} requests in a row found no server; it seems to have gone"
            return Answer(item_id=item.id, item_hash=asked, error=gone)
        endpoint, body = self._request(item)
        began_s = time.monotonic()
        reply, retries = await persistent(client, endpoint, body, self._options.timeout_s, self._pauses_s)
        spent_s = time.monotonic() - began_s
        self._counts["retries"] += retries
        is_gone = reply.trouble is Trouble.NO_CONNECTION
        self._refused_in_a_row = self._refused_in_a_row + 1 if is_gone else 0
        if reply.delta is None:
            return Answer(item_id=item.id, item_hash=asked, error=reply.detail)
        self._note_model(reply.model)
        answer = _answer_of(item, asked, reply.delta, spent_s if self._options.slots == 1 and not retries else None)
        opened = endpoint.api is Api.COMPLETIONS and opens_thought(str(body.get("prompt")))
        said = split_thought(without_key(answer.text or "", endpoint), opened=opened)
        thought = said.thought or bool(reply.delta.reasoning)
        self._counts["reasoning"] += thought
        self._counts["cut"] += thought and not said.answer and answer.finish is FinishReason.LENGTH
        return whole_answer(replace(answer, text=said.answer))

    def _note_model(self, answered: str | None) -> None:
        """Remember a model that answered and is not the one that was asked."""
        wanted = self._endpoint.model
        if answered is None or wanted is None or len(self._others) >= _MOST_OTHERS:
            return
        if model_name(answered).lower() != model_name(wanted).lower():
            self._others[self._shown(answered)] = None

    def _way(self, item: Item) -> Api:
        """Which interface an item is for."""
        chats = item.messages or item.asks_choices or self._options.chat_prompts
        return Api.CHAT if chats else Api.COMPLETIONS

    def _request(self, item: Item) -> tuple[Endpoint, dict[str, Any]]:
        """Where an item goes, and what is sent."""
        asked = listed(item) if item.asks_choices else item
        wants_chat = self._way(item) is Api.CHAT
        is_chat = self._look.has_chat if wants_chat else not self._look.has_completions
        messages = asked.messages or (Message(role=Role.USER, content=asked.prompt or ""),)
        body: dict[str, Any] = {
            "stream": False,
            "temperature": 0,
            "max_tokens": item.max_tokens or self._options.max_tokens,
        }
        if self._endpoint.model is not None:
            body["model"] = self._endpoint.model
        if self._look.takes_seed:
            body["seed"] = SEED
        if item.stop:
            body["stop"] = list(item.stop)
        if self._look.is_llama_cpp:
            body["cache_prompt"] = False  # what was read in another company is rounded otherwise
        if is_chat:
            body["messages"] = [{"role": message.role.value, "content": message.content} for message in messages]
        else:
            body["prompt"] = _BETWEEN_MESSAGES.join(message.content for message in messages)
        return replace(self._endpoint, api=Api.CHAT if is_chat else Api.COMPLETIONS), body

    def _look_notes(self, items: Sequence[Item]) -> tuple[str, ...]:
        ways = {self._way(item) for item in items}
        notes = {
            NO_COMPLETIONS_NOTE: Api.COMPLETIONS in ways and not self._look.has_completions,
            NO_CHAT_NOTE: Api.CHAT in ways and not self._look.has_chat,
            NO_SEED_NOTE: not self._look.takes_seed,
        }
        return tuple(note for note, holds in notes.items() if holds)

    def close(self) -> None:
        """Nothing stays open between two calls of :meth:`ask`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _stop(client: httpx.AsyncClient, running: set[asyncio.Task[Answer]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await client.aclose()


def _answer_of(item: Item, asked: str, delta: Delta, time_s: float | None) -> Answer:
    usage = delta.usage
    return Answer(
        item_id=item.id,
        item_hash=asked,
        text=delta.answer,
        finish=_FINISHES.get(delta.finish_reason or ""),
        tokens=None if usage is None else usage.output_tokens,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        time_s=time_s,
    )
