# SPDX-License-Identifier: Apache-2.0
"""What servers say of themselves and of what they hold, as plain frozen dataclasses."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Iterable

import numpy as np

from .arrays import DTYPES
from .protobuf import has_message

_TABLE_FIELD = 212  # of an OptimizerConfig
_RANGE = re.compile(r"(.*)#(\d+)/(\d+)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """A parameter as its servers hold it.

    ``shape`` is one dimension where nobody said more, ``version`` the number of pushes applied (of
    a parameter that is cut over several servers the lowest), ``state_bytes`` what its optimizer
    keeps beside the values, ``learning_rate`` the rate of the next push. Of one that ``is_table``
    the shape is (rows, width), and the version that of the server with the fewest pushes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    version: int
    rule: str
    learning_rate: float
    state_bytes: int
    is_table: bool = False

    def of_shape(self, shape: tuple[int, ...]) -> ParameterInfo:
        """The same with the shape that this trainer has it in, where a server knows none."""
        if len(self.shape) != 1 or math.prod(shape) != self.shape[0]:
            return self
        return dataclasses.replace(self, shape=shape)


@dataclasses.dataclass(frozen=True)
class ServerStatus:
    """A server as it stands: sizes in bytes, times in milliseconds.

    ``state`` is ``"uninitialized"``, ``"ready"`` and so on; ``position`` counts the pushes that its
    shard ever had, ``checkpoint_position`` those that the last checkpoint holds, and
    ``lost_push_count`` those that were acknowledged and are not in what was recovered.
    """

    index: int
    address: str
    state: str
    version: str
    device: str
    checkpoint: str
    epoch: int
    parameter_count: int
    parameter_bytes: int
    state_bytes: int
    push_count: int
    pull_count: int
    position: int
    checkpoint_position: int
    uptime_ms: int
    lost_push_count: int


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint of one shard: where it lies on its server, and the pushes that it holds."""

    index: int
    uuid: str
    path: str
    position: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A checkpoint of every shard that was asked for at once: a set, under the name by which
    ``psckpt restore-set`` and ``export --set`` find it. ``existed``: it was whole before the call.
    """

    name: str
    existed: bool
    shards: tuple[Saved, ...]


@dataclasses.dataclass(frozen=True)
class Counters:
    """What a client has done since it was opened.

    ``retries``: calls sent again. ``resends``: those that were pushes which may have been applied
    already. ``duplicates``: pushes that turned out to have been applied by an earlier attempt.
    ``feedback_bytes``: kept at the moment of what encodings left out. ``shared_calls`` and
    ``shared_bytes``: content that went through memory shared with a server of this host. The last
    three: how many shards are reached so at the moment.
    """

    retries: int
    resends: int
    duplicates: int
    feedback_bytes: int
    shared_calls: int
    shared_bytes: int
    tcp_servers: int
    unix_servers: int
    shared_servers: int


@dataclasses.dataclass(frozen=True)
class ReplicaCounters:
    """What a replica has received since it was opened: bytes of content, bytes that did not have to
    come, first copies, later full copies, and digests that were wrong."""

    received_bytes: int
    saved_bytes: int
    copies: int
    anchors: int
    mismatches: int


@dataclasses.dataclass(frozen=True)
class Applied:
    """What of a client's pushes is in one parameter, over all processes that had its client_id.

    A trainer that pushes each batch once goes on with batch ``pushes``, counted from 0.
    ``pushes_of_any`` is more than that only of a parameter that is cut over several servers, when a
    push that its process did not see to the end is in some of its ranges. ``version`` is that of
    the parameter after the last of them.
    """

    pushes: int
    pushes_of_any: int
    version: int


@dataclasses.dataclass(frozen=True)
class LastApplied:
    """What servers remember of a client: nothing when not ``known``, all when ``whole``.

    ``parameters`` has those to which it pushed.
    """

    known: bool
    whole: bool
    parameters: dict[str, Applied]

    def pushes(self, name: str) -> int:
        """The client's pushes that were applied to this parameter; 0: none."""
        applied = self.parameters.get(name)
        return 0 if applied is None else applied.pushes


def join_rows(rows: Iterable[dict[str, Any]]) -> dict[str, ParameterInfo]:
    """Rows of all servers, by name; the ranges of a parameter that is cut become one again."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        match = _RANGE.fullmatch(row["name"])
        parts.setdefault(match.group(1) if match else row["name"], []).append(row)
    return {name: _join(name, parts[name]) for name in sorted(parts)}


def _join(name: str, rows: list[dict[str, Any]]) -> ParameterInfo:
    count = sum(row["element_count"] for row in rows)
    shape = rows[0]["shape"]
    is_table = has_message(rows[0]["config"], _TABLE_FIELD)
    if is_table:
        shape = (sum(row["shape"][0] for row in rows), shape[-1])
    elif math.prod(shape) != count:
        shape = (count,)
    return ParameterInfo(
        name=name, shape=shape, dtype=DTYPES[rows[0]["type"]],
        version=min(row["version"] for row in rows), rule=rows[0]["rule"],
        learning_rate=rows[0]["learning_rate"], state_bytes=sum(row["state_bytes"] for row in rows),
        is_table=is_table)
