# SPDX-License-Identifier: Apache-2.0
"""Operations: pushes and pulls under way."""

from __future__ import annotations

import time
from typing import Any, Callable, Generator, Generic, Iterable, TypeVar

from . import _pserver
from .loops import Loops

T = TypeVar("T")
U = TypeVar("U")

# At most this long at a time in the library, between two looks at the clock.
_SLICE_MS = 50


class Operation(Generic[T]):
    """A push or a pull that was begun, to be waited for with ``wait()`` or, in a coroutine, with
    ``await``.

    Its arrays are kept alive, and must not be changed, until it is over. One that is dropped before
    that goes on: its client keeps the arrays, and ``close()`` waits for it.
    """

    def __init__(self, handle: _pserver.Operation, finish: Callable[[list[int]], T],
                 loops: Loops) -> None:
        self._handle = handle
        self._finish = finish
        self._loops = loops
        self._waited = False  # by a thread, which the library then tells instead of a loop

    def done(self) -> bool:
        """Whether ``wait()`` would return at once."""
        return self._handle.wait(0)

    def wait(self, timeout: float | None = None) -> T:
        """What the call without ``_async`` would have returned, or its exception.

        Args:
            timeout: seconds; None: until it is over, which the timeout of its beginning bounds.

        Raises:
            TimeoutError: it is not over yet, and goes on.
            Error: it failed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        self._waited = True
        while not self._handle.wait(_slice_ms(until)):
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"not over after {timeout} s; it goes on")
        return self._finish(self._handle.result())

    def __await__(self) -> Generator[Any, None, T]:
        """As ``wait()``, while the loop goes on. A coroutine that is cancelled leaves the operation
        going."""
        yield from self._loops.over(self._handle, by_thread=self._waited).__await__()
        return self._finish(self._handle.result())

    def cancel(self) -> None:
        """Gives it up as if its timeout were over, and returns at once.

        A push that was sent and not answered is an UnknownOutcomeError in ``wait()``, which returns
        soon; an answer that was there stays what it is.
        """
        self._handle.cancel()

    def then(self, make: Callable[[T], U]) -> Operation[U]:
        """The same operation, whose ``wait()`` gives what `make` makes of the result."""
        finish = self._finish
        return Operation(self._handle, lambda versions: make(finish(versions)), self._loops)

    def __repr__(self) -> str:
        return f"<pserver.Operation {'over' if self.done() else 'under way'}>"


def _slice_ms(until: float | None) -> int:
    if until is None:
        return _SLICE_MS
    return min(_SLICE_MS, max(0, round(1000 * (until - time.monotonic()))))


def wait(operations: Iterable[Operation[Any]], *, count: int = 1, timeout: float | None = None,
         ) -> tuple[set[Operation[Any]], set[Operation[Any]]]:
    """Waits until `count` of the operations are over, or `timeout` seconds have passed.

    Returns:
        Those that are over and those that are not. ``wait()`` of the first has their results.
    """
    until = None if timeout is None else time.monotonic() + timeout
    pending = set(operations)
    over = {operation for operation in pending if operation.done()}
    pending -= over
    while pending and len(over) < count and (until is None or time.monotonic() < until):
        first = next(iter(pending))
        first._waited = True
        first._handle.wait(_slice_ms(until))
        finished = {operation for operation in pending if operation.done()}
        over |= finished
        pending -= finished
    return over, pending
