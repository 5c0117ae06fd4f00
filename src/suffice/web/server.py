"""The addresses of the page, and the server behind them: Starlette and uvicorn, on a socket of ours."""

from __future__ import annotations

import hmac
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
from suffice.web.assets import ASSETS
from suffice.web.fields import LANGUAGE
from suffice.web.form import form_of, read_pairs
from suffice.web.guard import MOST_BODY_BYTES, Guard
from suffice.web.page import View
from suffice.web.saving import save_demand
from suffice.web.words import language_of, texts_of

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from starlette.requests import Request

    from suffice.web.answer import Answer, Bench
    from suffice.web.form import Form
    from suffice.web.guard import Door
    from suffice.web.page import Pages

_MOST_AT_ONCE: Final = 64  # connections
_LAST_ANSWERS_S: Final = 2  # that are waited for when it ends
_FIRST_S: Final = 0.15  # for the parts of an answer; drawing them takes time as well
_NEXT_S: Final = 10.0
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


def serve(app: Starlette, listening: socket.socket) -> None:
    """Answer on a socket until Ctrl-C, or until the process is asked to end."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        access_log=False,  # addresses may hold a token, and always hold a demand
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # raised again by uvicorn, after all is closed
        return


class _Handlers:
    """One method for each address."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def page(self, request: Request) -> Response:
        """The whole page."""
        view = await self._view(request, None)
        return _html(self._site.pages.page(view), view)

    async def result(self, request: Request) -> Response:
        """What a change of the form replaces: soon, with what there is by then, or with ``wait=1`` later with more."""
        patience_s = _NEXT_S if "wait" in request.query_params else _FIRST_S
        view = await self._view(request, patience_s)
        return HTMLResponse(
            self._site.pages.result(view)
        )  # a refusal is an answer here; 422 would be an error in the console

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
        view = await run_in_threadpool(self._judged, pairs, 0.0)
        if view.answer is None:
            return _html(self._site.pages.page(view), view)
        if pairs.get("do") == "download" or self._site.save_to is None:
            return _download(view.answer)
        return await run_in_threadpool(self._saved, self._site.save_to, view, view.answer, pairs.get("seen", ""))

    def _saved(self, path: Path, view: View, answer: Answer, seen: str) -> Response:
        texts = texts_of(view.language)
        try:
            saving = save_demand(path, answer.toml, seen)
        except OutputError as error:
            told = texts["save.failed"].format(message=str(error))
            return HTMLResponse(self._site.pages.saved(view, told, None), status_code=HTTPStatus.INTERNAL_SERVER_ERROR)
        told = texts[f"save.{saving.outcome.value}"].format(name=path.name)
        return HTMLResponse(self._site.pages.saved(view, told, saving))

    async def _view(self, request: Request, patience_s: float | None) -> View:
        try:
            pairs = read_pairs(request.url.query)
        except UsageError as error:
            return View(form=self._site.start, language=language_of(None), refused=str(error))
        return await run_in_threadpool(self._judged, pairs, patience_s)

    def _judged(self, pairs: dict[str, str], patience_s: float | None = None) -> View:
        form = form_of(pairs, self._site.start)
        language = language_of(pairs.get(LANGUAGE))
        try:
            return View(form=form, language=language, answer=self._site.bench.answer(form, patience_s))
        except SufficeError as error:
            return View(form=form, language=language, refused=str(error))


async def _body(request: Request) -> str:
    """The form that was sent.

    Raises:
        UsageError: it is longer than it may be.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise UsageError(f"a form has at most {MOST_BODY_BYTES} bytes")
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
