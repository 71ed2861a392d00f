# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one class for each kind, all of them pserver.Error.

``error.retryable`` says whether the same call may be made again without harm; ``error.results`` has
what became of every item of a call that had several; ``error.hint`` says what to do about it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from typing import ClassVar, Iterator

from . import _pserver


@dataclasses.dataclass(frozen=True)
class ItemResult:
    """What became of one parameter of a call that failed.

    ``status`` is ``"ok"`` for the items that succeeded: what succeeded stays succeeded. ``version``
    counts the pushes that the parameter had after this one; ``duplicate`` says that an attempt
    before the last had been applied already (it counts once).
    """

    name: str
    status: str
    text: str
    version: int
    retries: int
    duplicate: bool


class Error(Exception):
    """The root of every failure of a server, of the way to it, or of a client's use.

    Wrong arguments that never left this process raise Python's own TypeError and ValueError.
    """

    #: Whether the same call may be made again without harm.
    retryable: ClassVar[bool] = False
    #: What to do about it, in one sentence; empty where the text says it all.
    hint: str = ""

    def __init__(self, text: str, results: list[ItemResult] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.results: list[ItemResult] = results or []

    def __str__(self) -> str:
        """The server's words, and the hint in brackets."""
        return f"{self.text} ({self.hint})" if self.hint else self.text


class UnavailableError(Error, ConnectionError):
    """No server answered within the time, and nothing was applied by this call."""

    retryable = True
    hint = "are the servers running, and reachable under these addresses?"

    def __init__(self, text: str, results: list[ItemResult] | None = None) -> None:
        super().__init__(text, results)
        if re.search(r" waits until |waited for|may not read", text):
            self.hint = "the workers that are waited for did not come: give it more time"


class UnknownOutcomeError(Error):
    """The time passed while it was open whether a push was applied: once, or not at all.

    Pushing the same gradient again would be another push. Treat it as a lost step, and give calls a
    timeout that is longer than a failover takes. Of a call that pushes nothing the hint says what
    to do.
    """

    hint = "do not push it again: go on with the next step"


class InvalidError(Error, ValueError):
    """A server refused the request: another type, length or optimizer than the parameter's."""


class NotFoundError(Error, KeyError):
    """No parameter of that name, or no job: the text says which."""


class AlreadyInitializedError(Error):
    """The job has its parameters already, or ``define`` met another one of the name."""

    hint = "pull what is there"


class NotInitializedError(Error):
    """The job has no parameters yet, or a server came back without them."""

    hint = "one trainer calls initialize()"


class ExhaustedError(Error):
    """A limit of a server is reached, or memory here."""

    retryable = True


class TableFullError(ExhaustedError):
    """A table has as many rows as it may have, or its server as much memory; nothing of the push
    was applied."""

    retryable = False
    hint = ("raise rows_max or the server's --memory-bytes, let rows expire, or make the table "
            "with full=\"oldest\"")


class DataLossError(Error):
    """Bytes are not what was written."""


class FailedError(Error):
    """Anything else; the text says what."""


class AccessError(Error, PermissionError):
    """A certificate or token was refused, or does not allow this."""

    hint = "see docs/security.md"


class AbortedError(Error):
    """A step of the rendezvous was given up, or its server lost; or the receive was cancelled."""


class ClosedError(Error):
    """The client was closed before."""


class ForkedError(Error):
    """The client was opened in the process that this one was forked from; or that process has one
    open, and this one wants one, too."""


@contextlib.contextmanager
def open_end(hint: str) -> Iterator[None]:
    """What to do when the time is over in a call that may be made again, unlike a push."""
    try:
        yield
    except UnknownOutcomeError as error:
        error.hint = hint
        raise


# The numbers are those of psclient_status; those below 0 are the extension's own.
_CLASSES: dict[int, type[Error]] = {
    -2: ForkedError,
    -1: ClosedError,
    1: UnavailableError,
    2: UnknownOutcomeError,
    3: InvalidError,
    4: NotFoundError,
    5: AlreadyInitializedError,
    6: NotInitializedError,
    7: ExhaustedError,
    8: DataLossError,
    9: FailedError,
    10: AccessError,
    11: AccessError,
    12: TableFullError,
    13: AbortedError,
}


def make_error(status: int, text: str,
               items: list[tuple[str, int, str, int, int, bool]]) -> Error:
    """The exception for a status of libpsclient; called by the extension."""
    results = [ItemResult(name, _pserver.status_name(code), why, version, retries, duplicate)
               for name, code, why, version, retries, duplicate in items]
    return _CLASSES.get(status, FailedError)(text, results)
