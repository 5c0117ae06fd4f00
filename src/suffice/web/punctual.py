"""The server behind the page: it ends at once, and slow or silent connections do not keep others out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

LOOK_S: Final = 10.0
"""A connection that begins no request within this time is closed."""
_MOST_LOOKS: Final = 12  # while one answer is computed, sent and read


class PunctualProtocol(H11Protocol):
    """HTTP, with an end to waiting: uvicorn waits for ever for a first request, for its headers, and for somebody to read an answer."""

    _timer: asyncio.TimerHandle | None = None
    _seen: object = None
    _looks = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close what has asked for nothing since the last look, or takes very long."""
        cycle: Any = self.cycle
        is_same = cycle is self._seen
        is_answering = cycle is not None and not cycle.response_complete
        self._looks = self._looks + 1 if is_same else 0
        if (is_same and not is_answering) or self._looks >= _MOST_LOOKS:
            self.transport.abort()
            return
        self._seen = cycle
        self._timer = self.loop.call_later(LOOK_S, self._look)


class PunctualServer(uvicorn.Server):
    """Says when it is asked to end, so that requests that wait are let go before they are waited for.

    Args:
        config: of uvicorn.
        on_end: called in a thread of its own, since a signal comes at any moment.
    """

    def __init__(self, config: uvicorn.Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        threading.Thread(target=self._on_end, daemon=True).start()
        super().handle_exit(sig, frame)
