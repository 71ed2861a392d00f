# SPDX-License-Identifier: Apache-2.0
"""Gradients and parameters in a GPU's memory, which stay there.

Whatever has ``__cuda_array_interface__`` (version 2 or later) is such an array: a PyTorch tensor
with ``is_cuda``, a CuPy array. Where a server on this host keeps the parameter on the same GPU,
nothing crosses the bus; everywhere else the library takes the way by the host.
"""

from __future__ import annotations

import sys
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from . import _pserver
from .arrays import DTYPES, Array

_PUSH, _PULL = 0, 1

#: What the extension takes of an array: psclient_type, address, bytes.
Piece = tuple[int, int, int]


def on_device(value: Any) -> bool:
    """Is this an array in a GPU's memory?"""
    if type(value) is np.ndarray:
        return False  # nearly all of them: asked first
    if hasattr(value, "is_cuda"):
        return bool(value.is_cuda)
    return hasattr(value, "__cuda_array_interface__")


def piece_of(name: str, value: Any) -> Piece:
    """Where it is, and what; TypeError for what does not travel as it lies."""
    if hasattr(value, "detach"):
        value = value.detach()  # a tensor that requires a gradient refuses the interface
    facts = value.__cuda_array_interface__
    dtype = np.dtype(facts["typestr"])
    if dtype not in DTYPES:
        raise TypeError(f"{name}: elements of type {dtype} do not go from a GPU; convert them to "
                        "one of " + ", ".join(str(known) for known in DTYPES))
    shape = tuple(facts["shape"])
    if not _is_contiguous(shape, facts.get("strides"), dtype.itemsize):
        raise TypeError(f"{name}: the array is not C-contiguous: make it so on the GPU")
    count = 1
    for length in shape:
        count *= length
    return DTYPES.index(dtype), int(facts["data"][0]), count * dtype.itemsize


def _is_contiguous(shape: Sequence[int], strides: Sequence[int] | None, size: int) -> bool:
    """A stride of a dimension of one element says nothing."""
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and stride != size:
            return False
        size *= length
    return True


def _settle(values: Iterable[Any]) -> None:
    """Waits for what PyTorch has queued on the current streams: servers are other processes, and
    no event of this one is theirs. Streams of other libraries are their users' to wait for."""
    torch = sys.modules.get("torch")
    devices = {value.device for value in values if hasattr(value, "is_cuda")}
    if torch is None or not hasattr(torch, "cuda"):
        return
    for device in devices:
        torch.cuda.current_stream(device).synchronize()


class OnDevice:
    """The part of ``Client`` for arrays in a GPU's memory."""

    _handle: _pserver.Client
    _timeout_ms: int

    def use_device(self, plugin: str | None = None) -> None:
        """Loads the plugin that knows a GPU's memory; the first push or pull of such an array does
        it by itself.

        Args:
            plugin: the path of ``libpserver_cuda.so``; None: the one beside this package's library.

        Raises:
            InvalidError: there is none, or it is of another version.
        """
        self._handle.load_device(plugin)

    def forget_device(self, value: Any, *, timeout: float | None = None) -> None:
        """Has servers let go of the memory that an array lies in: before that is given back, as
        ``torch.cuda.empty_cache()`` does.

        Raises:
            UnavailableError: a server has not let go within that time.
        """
        wait_ms = self._timeout_ms if timeout is None else int(timeout * 1000)
        self._handle.forget_device(piece_of("array", value)[1], wait_ms)

    @property
    def device_bytes(self) -> int:
        """Bytes that servers have read and written in a GPU's memory so far."""
        return self._handle.device_bytes()

    def _run(self, kind: int, arrays: Mapping[str, Any], wait_ms: int) -> list[int]:
        """Those on a GPU and the others, each in a call of its own; versions in order."""
        there = [name for name, value in arrays.items() if on_device(value)]
        here = [name for name in arrays if name not in set(there)]
        pieces = [piece_of(name, arrays[name]) for name in there]
        self.use_device()
        _settle(arrays[name] for name in there)
        versions = dict(zip(there, self._handle.run_device(kind, there, pieces, wait_ms)))
        if here:
            values: list[Array] = [arrays[name] for name in here]
            sources, targets = (values, None) if kind == _PUSH else (None, values)
            versions.update(zip(here, self._handle.run(kind, here, sources, targets, wait_ms)))
        return [versions[name] for name in arrays]
