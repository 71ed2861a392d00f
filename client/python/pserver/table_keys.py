# SPDX-License-Identifier: Apache-2.0
"""Keys of rows, as callers have them and as they travel."""

from __future__ import annotations

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
    array = np.asarray(keys)
    if array.dtype.kind not in "iu" and not isinstance(keys, np.ndarray):
        array = _keys_of_list(np.asarray(keys, object))
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: keys are whole numbers, not {array.dtype}")
    if array.dtype not in _KEYS_AS_THEY_LIE:
        array = array.astype(np.int64)  # so that -1 is the same key in every type
    return np.asarray(array, order="C").view(KEY)


def _keys_of_list(array: Array) -> Array:
    """An empty list has no type, and one with numbers on both sides of 2**63 becomes floats."""
    if not all(isinstance(key, (int, np.integer)) for key in array.flat):
        return array
    return (array & (2 ** 64 - 1)).astype(KEY) if array.size else array.astype(KEY)
