# SPDX-License-Identifier: Apache-2.0
"""Time that is left, and what does not hear ctrl-C while it waits."""

from __future__ import annotations

import time
from typing import Callable, TypeVar

from . import errors

T = TypeVar("T")

_SLICE_MS = 500


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
