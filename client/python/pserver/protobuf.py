# SPDX-License-Identifier: Apache-2.0
"""Protocol buffers, as much of them as an OptimizerConfig takes."""

from __future__ import annotations

import struct
from typing import Iterable


def varint(value: int) -> bytes:
    """A whole number from 0 on, seven bits in a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field with a whole number, a truth value or an enum."""
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    """A field with a double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def message(field: int, body: bytes) -> bytes:
    """A field with a message, a text or bytes."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def has_message(body: bytes, field: int) -> bool:
    """Whether a message has this field, one with a message in it. What cannot be read has not."""
    at = 0
    try:
        while at < len(body):
            key, at = _read_varint(body, at)
            if key == field << 3 | 2:
                return True
            if key & 7 == 2:
                size, at = _read_varint(body, at)
                at += size
            elif key & 7 == 0:
                _, at = _read_varint(body, at)
            else:
                at += {1: 8, 5: 4}[key & 7]
    except (IndexError, KeyError):
        pass
    return False


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while body[at] & 0x80:
        value |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | body[at] << shift, at + 1


def numbers(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of whole numbers, packed."""
    return message(field, b"".join(varint(value) for value in values))
