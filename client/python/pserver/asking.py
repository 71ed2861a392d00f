# SPDX-License-Identifier: Apache-2.0
"""Time that is left, and waits between whose slices ctrl-C is heard."""

from __future__ import annotations

import time
from typing import Any, Callable, TypeVar

from . import _pserver, errors

T = TypeVar("T")

_SLICE_MS = 500
_REQUEST_SLICE_MS = 1000


def ask(question: Callable[[int], T], until: float) -> T:
    """Asks something that changes nothing, again and again with more patience: ctrl-C is heard
    between two attempts. Calls of a client hear it by themselves; there is none yet when one
    connects."""
    slice_ms = _SLICE_MS
    while True:
        try:
            return question(min(slice_ms, left_ms(until)))
        except errors.UnavailableError:
            if time.monotonic() >= until:
                raise
        slice_ms *= 2


def left_ms(until: float) -> int:
    """Milliseconds until that time of time.monotonic(), one at least."""
    return max(1, round(1000 * (until - time.monotonic())))


def wait_for_request(handle: _pserver.Customer | _pserver.Serving, number: int,
                     timeout: float) -> Any:
    """Waits for a request to server programs: what the handle's ``wait`` returns.

    An open end is the request's own only where it was over before the wait began; the slice may
    have ended otherwise, or the time of this wait, and the request goes on.
    """
    until = time.monotonic() + timeout
    while True:
        was_open = handle.is_open(number)
        slice_ms = max(0, min(round(1000 * (until - time.monotonic())), _REQUEST_SLICE_MS))
        try:
            return handle.wait(number, slice_ms)
        except errors.UnknownOutcomeError as error:
            if was_open and time.monotonic() < until:
                continue
            error.hint = "it goes on: wait for it again" if was_open else \
                "whether the program has carried it out is open"
            raise
