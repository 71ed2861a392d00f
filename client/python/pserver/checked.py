# SPDX-License-Identifier: Apache-2.0
"""What callers set, looked at where they set it: the error names the setting, what it was given,
and what goes there. Ranges that depend on a rule are the servers' to judge.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import numbers
import operator
import types
import typing
from typing import Any, Mapping

_MOST = 2 ** 64 - 1


def whole(what: str, value: Any, least: int = 0, most: int = _MOST) -> int:
    """A whole number of numpy's or Python's, within these bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}: it is a whole number") from None
    if not least <= number <= most:
        raise ValueError(f"{what} is {number}: it is from {least} to {most}")
    return number


def real(what: str, value: Any) -> float:
    """A number; whether it is finite, and fits its rule, the servers judge."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{what} is {value!r}: it is a number")
    return float(value)


def choice(what: str, value: Any, known: Mapping[str, int]) -> int:
    """The number of one of a few words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{what} is {value!r}: it is one of {', '.join(map(repr, known))}")
    return known[value]


def settings(given: Any) -> None:
    """All fields of a dataclass, by what their annotations say."""
    hints = typing.get_type_hints(type(given))
    for field in dataclasses.fields(given):
        _check(f"{type(given).__name__}: {field.name}", getattr(given, field.name),
               hints[field.name])


def _check(what: str, value: Any, kind: Any) -> None:
    # The annotations are what `help` shows, so that what is checked is what is written there. All
    # whole numbers of settings are unsigned on their way; which of them make sense together is the
    # servers' affair, who say it in the same words to clients of every language.
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        choice(what, value, dict.fromkeys(parts, 0))
    elif origin is types.UnionType:
        if value is not None:
            _check(what, value, parts[0])
    elif origin is tuple:
        if not isinstance(value, collections.abc.Sequence) or len(value) != len(parts):
            raise TypeError(f"{what} is {value!r}: it is {len(parts)} numbers")
        for part, of_kind in zip(value, parts):
            _check(what, part, of_kind)
    elif origin is collections.abc.Sequence:
        for part in value:
            _check(what, part, parts[0])
    elif kind is float:
        real(what, value)
    elif kind is int:
        whole(what, value)
    elif not isinstance(value, kind):
        raise TypeError(f"{what} is {value!r}: it is a {kind.__name__}")
