# SPDX-License-Identifier: Apache-2.0
"""A step of training in rounds: contributions, and the values that their rounds make.

In one message where it may wait for the other workers, which a client's numbers bound
(client/round_step.h), and in two otherwise: that of a contribution that came late, or was made
before by this worker's process of another life.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from . import _pserver, errors
from .arrays import Array
from .errors import open_end

#: Contributions that may go in one message with their pulls, as of libpsclient.
TOGETHER_MAX = 64

#: What to do about a contribution whose fate is open, unlike that of a push.
AGAIN = "make the step again: its contribution counts once"

_PUSH, _PULL, _PUSH_PULL = 0, 1, 2


def step(handle: _pserver.Client, names: Sequence[str], sources: Sequence[Any],
         targets: Sequence[Array], contribution: tuple[int, float, Sequence[int]],
         left_ms: Callable[[], int]) -> tuple[list[int], set[str]]:
    """The version of each value in `targets`, and the names whose contributions came late.

    `contribution` is 1 + the worker, its weight, and the round of each name.
    """
    together = len(names) <= TOGETHER_MAX
    kind, into = (_PUSH_PULL, targets) if together else (_PUSH, None)
    try:
        with open_end(AGAIN):
            rows = handle.run(kind, names, sources, into, left_ms(), contribution)
    except errors.AlreadyInitializedError as error:
        # Contributed before: what its round made is all that there is to get.
        if any(item.status not in ("ok", "already") for item in error.results):
            raise
        rows, together = [(version, False) for version in contribution[2]], False
    late = {name for name, (_, was_late) in zip(names, rows) if was_late}
    versions = [version for version, _ in rows]
    if late or not together:
        with open_end(AGAIN):
            waited = handle.run(_PULL, names, None, targets, left_ms(), (0, 0.0, versions))
        versions = [version for version, _ in waited]
    return versions, late
