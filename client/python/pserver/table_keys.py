# SPDX-License-Identifier: Apache-2.0
"""Keys of rows, as callers have them and as they travel."""

from __future__ import annotations

import hashlib
from typing import Iterable

import numpy as np
import numpy.typing as npt

from .arrays import Array, from_tensor

#: The type in which keys travel.
KEY = np.dtype("<u8")
_KEYS_AS_THEY_LIE = (KEY, np.dtype("<i8"))


def as_keys(name: str, keys: npt.ArrayLike) -> Array:
    """Keys as they travel; 64-bit ones without a copy."""
    if hasattr(keys, "detach"):
        keys = from_tensor(name, keys)
    try:
        array = np.asarray(keys)
    except ValueError:
        raise ValueError(f"{name}: rows of keys are of different lengths: give the keys of all "
                         "bags one behind the other") from None
    if not array.size:
        return np.empty(array.shape, KEY)  # a list of none has no type, or numpy's float64
    if array.dtype.kind == "O" or array.dtype.kind not in "iu" and not isinstance(keys, np.ndarray):
        array = _keys_of_list(name, np.asarray(keys, object))
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: keys are whole numbers, not {array.dtype}")
    if array.dtype not in _KEYS_AS_THEY_LIE:
        array = array.astype(np.int64)  # so that -1 is the same key in every type
    return np.asarray(array, order="C").view(KEY)


def text_keys(texts: Iterable[str]) -> Array:
    """Keys of texts, such as words or ``"city=Ulm"``: 64 bits of the BLAKE2b hash of each.

    They are the same in every process and on every machine, where Python's own ``hash`` differs
    from run to run. Two of a million texts have one key with a chance of one in forty million.
    """
    if isinstance(texts, str):
        raise TypeError(f"text_keys takes texts in a list, and not one: [{texts!r}]")
    hashes = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(hashes, KEY)


def _keys_of_list(name: str, array: Array) -> Array:
    """One with numbers on both sides of 2**63 became floats, and what numpy cannot take an object
    of no dimension."""
    for key in array.flat:
        if isinstance(key, str):
            raise TypeError(f"{name}: keys are whole numbers, not texts such as {key!r}: "
                            "pserver.text_keys gives them numbers")
        if not isinstance(key, (int, np.integer)):
            raise TypeError(f"{name}: keys are whole numbers in a list or an array, not a "
                            f"{type(key).__name__}")
        if not -2 ** 63 <= key < 2 ** 64:
            raise ValueError(f"{name}: {key} has more than the 64 bits of a key")
    return (array & (2 ** 64 - 1)).astype(KEY)
