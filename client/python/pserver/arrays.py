# SPDX-License-Identifier: Apache-2.0
"""From what users have to memory that the library reads and writes.

The extension takes contiguous arrays of the types that travel as they lie and comes here for the
rest: a strided gradient is copied once, a list becomes an array, a PyTorch tensor on the CPU is
used through a view of its memory.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

log = logging.getLogger("pserver")

#: psclient_type -> dtype: the numbers are those of the wire.
DTYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(name) for name in ("<i4", "<u4", "<i8", "<u8", "<f4", "<f8"))

#: float16 is of the caller's memory only: the parameter is float32 on its servers.
_TRAVELS = (*DTYPES, np.dtype("<f2"))


def check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """TypeError for elements that no server has."""
    if dtype not in _TRAVELS:
        raise TypeError(f"{name}: elements of type {dtype} do not travel; convert them to one of "
                        + ", ".join(str(known) for known in _TRAVELS))


def from_tensor(name: str, tensor: Any) -> Array:
    """A view of a tensor's memory where that is on the CPU and of a type that numpy has."""
    try:
        array: Array = tensor.detach().numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"{name}: this tensor has no memory that numpy sees: {error}; "
                        "pserver.torch.RemoteOptimizer stages such tensors") from None
    return array


def as_source(name: str, value: Any) -> Array:
    """An array to read `value` from; a copy where its memory is not contiguous."""
    if hasattr(value, "detach"):
        value = from_tensor(name, value)
    array = np.asarray(value)
    check_dtype(name, array.dtype)
    if not array.flags.c_contiguous:
        log.debug("%s: %d bytes copied, since they are not contiguous", name, array.nbytes)
        array = np.ascontiguousarray(array)
    return array


def as_target(name: str, value: Any) -> Array:
    """The memory of `value` itself, or TypeError: a copy would leave the caller's as it was."""
    if hasattr(value, "detach"):
        value = from_tensor(name, value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: pull into a numpy array or a tensor, not {type(value).__name__}")
    check_dtype(name, value.dtype)
    if not value.flags.c_contiguous:
        raise TypeError(f"{name}: the array to pull into is not C-contiguous")
    if not value.flags.writeable:
        raise TypeError(f"{name}: the array to pull into is read-only")
    return value
