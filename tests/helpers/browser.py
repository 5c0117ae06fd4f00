"""A browser without pictures: sends requests to an ASGI application in this process, and keeps its cookies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Browser:
    """Asks an application; redirects are not followed, and defects become answers as they would on a real server."""

    def __init__(self, app: ASGIApp, base_url: str) -> None:
        self._app = app
        self._base_url = base_url
        self.cookies = httpx.Cookies()

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """A page."""
        return self._ask("GET", path, headers=headers)

    def post(self, path: str, headers: dict[str, str] | None = None, content: Any = "") -> httpx.Response:  # noqa: ANN401  # as httpx
        """A form, encoded already."""
        return self._ask("POST", path, headers=headers, content=content)

    def _ask(self, method: str, path: str, **told: Any) -> httpx.Response:  # noqa: ANN401  # as above
        return asyncio.run(self._answer(method, path, **told))

    async def _answer(self, method: str, path: str, **told: Any) -> httpx.Response:  # noqa: ANN401  # as above
        transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=self._base_url, cookies=self.cookies) as client:
            answer = await client.request(method, path, **told)
            self.cookies.update(answer.cookies)
            return answer
