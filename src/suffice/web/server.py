"""The addresses of the page, and the server behind them: Starlette and uvicorn, on a socket of ours."""

from __future__ import annotations

import asyncio
import hmac
import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from suffice.errors import OutputError, SufficeError, UsageError
from suffice.units import KIB
from suffice.web.answer import Wait
from suffice.web.assets import ASSETS
from suffice.web.fields import LANGUAGE
from suffice.web.form import form_of, read_pairs
from suffice.web.guard import MOST_BODY_BYTES, Guard
from suffice.web.page import View
from suffice.web.punctual import PunctualProtocol, PunctualServer
from suffice.web.saving import save_demand
from suffice.web.words import language_of, texts_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

    from suffice.web.answer import Answer, Bench
    from suffice.web.form import Form
    from suffice.web.guard import Door
    from suffice.web.page import Pages

_MOST_AT_ONCE: Final = 32  # connections: each may hold one of the 40 threads in which requests are answered
_LAST_ANSWERS_S: Final = 1  # that are waited for when it ends
_BODY_S: Final = 10.0  # within which a form has to arrive
_MOST_HEADER_BYTES: Final = 16 * KIB
_FILE_NAME: Final = "demand.toml"  # of a download


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is served.

    Attributes:
        bench: what judges.
        pages: what draws.
        start: the form of somebody who sent none.
        save_to: the file of the demand; None: it can be downloaded only.
        csrf: what a form of ours carries.
    """

    bench: Bench
    pages: Pages
    start: Form
    save_to: Path | None
    csrf: str


def build_app(site: Site, door: Door) -> Starlette:
    """The application behind its guard."""
    handlers = _Handlers(site)
    return Starlette(
        routes=[
            Route("/", handlers.page),
            Route("/result", handlers.result),
            Route("/save", handlers.save, methods=["POST"]),
            *(Route(f"/{name}", handlers.asset) for name in ASSETS),
        ],
        middleware=[Middleware(Guard, door=door, locked=site.pages.locked)],
        exception_handlers={HTTPStatus.NOT_FOUND: _not_found, Exception: _defect},
    )


def serve(app: Starlette, listening: socket.socket, on_end: Callable[[], None]) -> None:
    """Answer on a socket until Ctrl-C, or until the process is asked to end; ``on_end`` is called then, before the last answers are waited for."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        http=PunctualProtocol,
        loop="asyncio",
        access_log=False,  # addresses may hold a token, and always hold a demand
        log_level="error",  # whoever sends nonsense does not fill the terminal
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
    )
    try:
        PunctualServer(config, on_end).run(sockets=[listening])
    except KeyboardInterrupt:  # raised again by uvicorn, after all is closed
        return


class _Handlers:
    """One method for each address."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._saving = threading.Lock()  # what was looked at is what is replaced

    async def page(self, request: Request) -> Response:
        """The whole page."""
        view = await self._view(request, Wait.ALL)
        return _html(await run_in_threadpool(self._site.pages.page, view), view)

    async def result(self, request: Request) -> Response:
        """What a change of the form replaces: soon, with what there is by then, or with ``wait=1`` once there is something new."""
        view = await self._view(request, Wait.NEXT if "wait" in request.query_params else Wait.FIRST)
        # A refusal is an answer here; 422 would be an error in the console.
        return HTMLResponse(await run_in_threadpool(self._site.pages.result, view))

    async def asset(self, request: Request) -> Response:
        """Style and script."""
        kind, content = ASSETS[request.url.path.removeprefix("/")]
        return Response(content, media_type=kind)

    async def save(self, request: Request) -> Response:
        """Write the demand to the file of the start, or send it as a file."""
        try:
            pairs = read_pairs(await _body(request))
        except UsageError as error:
            return _plain(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
        if not hmac.compare_digest(pairs.get("csrf", "").encode(), self._site.csrf.encode()):
            return _plain(
                "this form is not of this page, or of an earlier run of it; open the page again", HTTPStatus.FORBIDDEN
            )
        view = await run_in_threadpool(self._judged, pairs, Wait.NOTHING)
        if view.answer is None:
            return _html(self._site.pages.page(view), view)
        if pairs.get("do") == "download" or self._site.save_to is None:
            return _download(view.answer)
        return await run_in_threadpool(self._saved, self._site.save_to, view, view.answer, pairs.get("seen", ""))

    def _saved(self, path: Path, view: View, answer: Answer, seen: str) -> Response:
        texts = texts_of(view.language)
        try:
            with self._saving:
                saving = save_demand(path, answer.toml, seen)
        except OutputError as error:
            told = texts["save.failed"].format(message=str(error))
            return HTMLResponse(self._site.pages.saved(view, told, None), status_code=HTTPStatus.INTERNAL_SERVER_ERROR)
        told = texts[f"save.{saving.outcome.value}"].format(name=self._site.pages.file_name)
        return HTMLResponse(self._site.pages.saved(view, told, saving))

    async def _view(self, request: Request, waits: Wait) -> View:
        try:
            pairs = read_pairs(request.url.query)
        except UsageError as error:
            return View(form=self._site.start, language=language_of(None), refused=str(error))
        return await run_in_threadpool(self._judged, pairs, waits)

    def _judged(self, pairs: dict[str, str], waits: Wait) -> View:
        form = form_of(pairs, self._site.start)
        language = language_of(pairs.get(LANGUAGE))
        try:
            return View(form=form, language=language, answer=self._site.bench.answer(form, waits))
        except SufficeError as error:
            return View(form=form, language=language, refused=str(error))


async def _body(request: Request) -> str:
    """The form that was sent.

    Raises:
        UsageError: it is longer than it may be, or takes too long.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BODY_BYTES:
                    raise UsageError(f"a form has at most {MOST_BODY_BYTES} bytes")
    except TimeoutError:
        raise UsageError(f"the form did not arrive within {_BODY_S:g} s; send it again") from None
    return body.decode("utf-8", "replace")


def _html(text: str, view: View) -> Response:
    status = HTTPStatus.OK if view.answer is not None else HTTPStatus.UNPROCESSABLE_ENTITY
    return HTMLResponse(text, status_code=status)


def _plain(sentence: str, status: HTTPStatus) -> Response:
    return PlainTextResponse(f"suffice: {sentence}\n", status_code=status)


def _download(answer: Answer) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{_FILE_NAME}"'}
    return Response(answer.toml, media_type="application/toml", headers=headers)


async def _not_found(_request: Request, _error: Exception) -> Response:
    return _plain("there is no such page", HTTPStatus.NOT_FOUND)


async def _defect(_request: Request, _error: Exception) -> Response:
    """What a browser sees of a defect; the terminal in which the page was started says the rest."""
    return _plain("a defect in suffice; please report what you did", HTTPStatus.INTERNAL_SERVER_ERROR)
