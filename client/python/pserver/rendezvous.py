# SPDX-License-Identifier: Apache-2.0
"""Values from process to process, by step and key, through the servers of the job."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Iterable

import numpy as np

from . import _pserver
from .arrays import Array, from_tensor
from .errors import open_end

#: The numbers of types that travel. Those of the wire's parameters come first; a server looks at
#: none of them. 255 is bytes without elements.
_NAMES = {0: "<i4", 1: "<u4", 2: "<i8", 3: "<u8", 4: "<f4", 5: "<f8", 16: "<f2", 17: "|b1",
          18: "|i1", 19: "|u1", 20: "<i2", 21: "<u2", 22: "<c8", 23: "<c16"}
_DTYPES: dict[int, np.dtype[Any]] = {number: np.dtype(name) for number, name in _NAMES.items()}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}
_BYTES = 255


class Dead:
    """What a branch sends that was not taken; ``Rendezvous.recv`` gives ``pserver.DEAD``."""

    def __repr__(self) -> str:
        return "pserver.DEAD"


#: The value of a branch that was not taken: it is sent and received like any other.
DEAD = Dead()


class Rendezvous:
    """One step: ``send`` in one process, ``recv`` in another, in any order.

    Of one key, values are received in the order in which they were sent, each once, whatever
    answers are lost. Nothing is kept on disk: when a server is lost, calls of the step raise
    ``AbortedError``; begin it again under another number then. docs/rendezvous.md has the rules.
    """

    def __init__(self, client: _pserver.Client, step: int, *, session: str | None, strict: bool,
                 lifetime: float | None, deferred: bool, timeout_ms: int) -> None:
        self.step = step
        self._timeout_ms = timeout_ms
        self._handle = _pserver.Rendezvous(
            client, step, session, strict, round(1000 * (lifetime or 0)), deferred, timeout_ms)

    def send(self, key: str, value: Any, *, timeout: float | None = None) -> None:
        """Returns when the value is in a server's memory: nobody need receive it first.

        Args:
            key: 1 to 1024 bytes.
            value: an array, a tensor, bytes, or ``pserver.DEAD``. It is read where it lies.
            timeout: seconds; None: the client's.

        Raises:
            AbortedError: the step was aborted or cleaned up, or its server lost.
            ExhaustedError: too much waited to be received, and did all the time.
        """
        limit = self._limit(timeout)
        if isinstance(value, Dead):
            self._handle.send(key, _BYTES, 0, (), True, b"", limit)
            return
        if isinstance(value, (bytes, bytearray, memoryview)):
            self._handle.send(key, _BYTES, 0, (), False, value, limit)
            return
        array = np.ascontiguousarray(
            from_tensor(key, value) if hasattr(value, "detach") else value)
        if array.dtype not in _NUMBERS:
            raise TypeError(f"{key}: elements of type {array.dtype} do not travel")
        # A view of bytes: types such as float16 have no format that every buffer knows. Of a scalar
        # ascontiguousarray makes a list of one.
        shape = np.shape(value) if not hasattr(value, "detach") else array.shape
        self._handle.send(key, _NUMBERS[array.dtype], array.dtype.itemsize, tuple(shape), False,
                          array.reshape(-1).view(np.uint8), limit)

    def recv(self, key: str, *, timeout: float | None = None) -> Any:
        """Waits for a value of this key: an array, bytes, or ``pserver.DEAD``.

        The memory of a large array is what the network's bytes were put into; nothing is copied.

        Raises:
            AbortedError: as for a send; or the receive was cancelled, or is the second of a key in
                a strict step.
            UnknownOutcomeError: nothing was sent in time; nothing is lost.
        """
        return self.recv_many((key,), timeout=timeout)[0]

    def recv_many(self, keys: Iterable[str], *, timeout: float | None = None) -> list[Any]:
        """Waits for a value of each key: all of them, in the order of the keys, or an exception."""
        with open_end("receive again"):
            return [_read(value) for value in self._handle.recv(tuple(keys), self._limit(timeout))]

    def cancel(self, *, timeout: float | None = None) -> None:
        """Receives of this object that wait in other threads raise AbortedError."""
        self._handle.cancel(self._limit(timeout))

    def abort(self, reason: str, *, timeout: float | None = None) -> None:
        """Whoever waits in the step, or comes later, fails with this reason; the first stays."""
        self._handle.abort(reason, self._limit(timeout))

    def cleanup(self, *, timeout: float | None = None) -> None:
        """Ends the step at every server: by one of its processes, when all have what they need."""
        self._handle.cleanup(self._limit(timeout))

    def close(self) -> None:
        """The step goes on, for others."""
        self._handle.close()

    def __enter__(self) -> Rendezvous:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _limit(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else max(0, round(1000 * timeout))


def _read(value: _pserver.Value) -> Array | bytes | Dead:
    dtype, _, shape, dead = value.facts()
    if dead:
        return DEAD
    # The types of before Python 3.12 do not know that a class of an extension has a buffer.
    memory: Any = value
    if dtype not in _DTYPES:
        return bytes(memoryview(memory))
    # The array keeps the value, and with it the memory.
    array: Array = np.frombuffer(memory, _DTYPES[dtype])
    return array.reshape(shape)
