# SPDX-License-Identifier: Apache-2.0
"""What a table is defined with, beside its optimizer: first values, limits, and who has which key.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Sequence

from . import checked
from .protobuf import double, message, number, numbers

Full = Literal["refuse", "oldest"]

#: Elements of a row, at most.
WIDTH_MAX = 4096

_FULL: dict[str, int] = {"refuse": 0, "oldest": 1}


@dataclasses.dataclass(frozen=True)
class Initializer:
    """What rows begin with: zeros. Classes that inherit from this one say something else."""

    _NUMBER: ClassVar[int] = 0

    def __post_init__(self) -> None:
        checked.settings(self)

    def config(self) -> bytes:
        """The fields of a TableConfig that say this."""
        return number(3, self._NUMBER)


@dataclasses.dataclass(frozen=True)
class Constant(Initializer):
    """Every element of a new row is `value`."""

    value: float

    _NUMBER = 1

    def config(self) -> bytes:
        return super().config() + double(4, self.value)


@dataclasses.dataclass(frozen=True)
class Uniform(Initializer):
    """Elements of a new row lie evenly between `low` and below `high`.

    A row's values come of `seed` and its key alone: every server, and every life of it, finds the
    same ones.
    """

    low: float
    high: float
    seed: int = 0

    _NUMBER = 2

    def config(self) -> bytes:
        return super().config() + double(4, self.low) + double(5, self.high) + number(6, self.seed)


@dataclasses.dataclass(frozen=True)
class Normal(Initializer):
    """Elements of a new row lie about `mean`, with the deviation `deviation`.

    Each is the sum of twelve even numbers, and so never further than 6 deviations off. As of
    ``Uniform`` the values come of `seed` and the key alone.
    """

    mean: float
    deviation: float
    seed: int = 0

    _NUMBER = 3

    def config(self) -> bytes:
        return (super().config() + double(4, self.mean) + double(5, self.deviation)
                + number(6, self.seed))


@dataclasses.dataclass(frozen=True)
class KeyRanges:
    """Which server has which key, where keys are no hashes: the numbers of users, say.

    Args:
        keys_max: keys are 0 to keys_max - 1, in as many equal ranges as there are servers.
        chunk: ranges begin at multiples of it.
        bounds: the first key of the servers 1, 2 and so on, rising, in the place of `keys_max`.
    """

    keys_max: int = 0
    chunk: int = 1
    bounds: Sequence[int] = ()

    def __post_init__(self) -> None:
        checked.settings(self)

    def config(self) -> bytes:
        """The fields of a TableConfig that say this."""
        if bool(self.keys_max) == bool(self.bounds):
            raise ValueError("key ranges have keys_max, or bounds, and not both")
        if self.bounds:
            return number(12, 2) + numbers(14, self.bounds)
        return number(12, 1) + number(13, self.keys_max) + number(15, self.chunk)


def limits_config(table: str, *, rows_max: int | None, full: Full | None, expire: float | None,
                  expire_clocks: tuple[str, int] | None,
                  candidates_max: int | None) -> bytes:
    """The fields of a TableConfig that say how long rows stay; None: nothing about that. `table` is
    its name, for errors."""
    out = b"" if rows_max is None else number(2, checked.whole(f"{table}: rows_max", rows_max))
    if full is not None:
        out += number(7, checked.choice(f"{table}: full", full, _FULL))
    if expire is not None:
        if not 0 <= checked.real(f"{table}: expire", expire) < 2 ** 53:
            raise ValueError(f"{table}: expire is {expire}: it is seconds, 0 for rows that stay")
        out += number(9, round(1000 * expire))
    if expire_clocks is not None:
        if not isinstance(expire_clocks, tuple) or len(expire_clocks) != 2:
            raise TypeError(f"{table}: expire_clocks is {expire_clocks!r}: it is the clocks' name "
                            "and a number of iterations, as (\"train\", 100)")
        name, clocks = expire_clocks
        out += number(10, checked.whole(f"{table}: expire_clocks", clocks))
        out += message(11, name.encode())
    if candidates_max is not None:
        out += number(16, checked.whole(f"{table}: candidates_max", candidates_max))
    return out


def table_config(table: str, width: int, *, init: Initializer, rows_max: int, full: Full,
                 expire: float, expire_clocks: tuple[str, int] | None, admission: int,
                 candidates_max: int, ranges: KeyRanges | None) -> bytes:
    """The field `table` of an OptimizerConfig."""
    if not isinstance(init, Initializer):
        raise TypeError(f"{table}: init is {init!r}: give one, such as "
                        "pserver.Uniform(-0.05, 0.05)")
    out = number(1, checked.whole(f"{table}: width", width, 1, WIDTH_MAX)) + init.config()
    out += limits_config(table, rows_max=rows_max, full=full, expire=expire,
                         expire_clocks=expire_clocks, candidates_max=candidates_max or None)
    if checked.whole(f"{table}: admission", admission) > 1:
        out += number(8, admission)
    if ranges is not None:
        out += ranges.config()
    return message(212, out)
