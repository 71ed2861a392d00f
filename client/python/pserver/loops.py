# SPDX-License-Identifier: Apache-2.0
"""Operations in event loops: who awaits one is told by the loop that it is over.

libpsclient gives a descriptor that is readable while there are operations that nobody was told of.
Every loop in which somebody awaits watches it; whichever is first fetches them all and tells each
one's own loop.
"""

from __future__ import annotations

import asyncio

from . import _pserver

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Loops:
    """The event loops that a client's operations are awaited in."""

    def __init__(self, client: _pserver.Client) -> None:
        self._client = client
        self._waiters: dict[int, _Waiter] = {}
        self._watching: set[asyncio.AbstractEventLoop] = set()
        self._descriptor = -1

    async def over(self, operation: _pserver.Operation, *, by_thread: bool) -> None:
        """Returns when the operation is over.

        The waiter is entered before the operation is looked at: whoever finishes it in between
        finds the waiter.
        """
        loop = asyncio.get_running_loop()
        if by_thread:
            while not await loop.run_in_executor(None, operation.wait, 50):
                pass
            return
        self._watch(loop)
        waiter = loop.create_future()
        key = operation.key()
        self._waiters[key] = (loop, waiter)
        try:
            while not operation.wait(0):
                await waiter
        finally:
            self._waiters.pop(key, None)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop in self._watching:
            return
        if self._descriptor < 0:
            self._descriptor = self._client.event_fd()
        self._watching = {other for other in self._watching if not other.is_closed()} | {loop}
        loop.add_reader(self._descriptor, self._fetch)

    def _fetch(self) -> None:
        while (key := self._client.next(0)) is not None:
            loop, waiter = self._waiters.get(key, (None, None))
            if loop is not None and waiter is not None and not loop.is_closed():
                loop.call_soon_threadsafe(_tell, waiter)

    def close(self) -> None:
        """No loop watches the client any more: it is about to be closed, and its descriptor too."""
        for loop in self._watching:
            if not loop.is_closed():
                loop.remove_reader(self._descriptor)
        self._watching = set()


def _tell(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
