# SPDX-License-Identifier: Apache-2.0
"""A layer of PyTorch whose rows are those of a table on the servers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from .table_keys import as_keys
from .tables import Table

Mode = Literal["rows", "sum", "mean"]

_TYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class RemoteEmbedding(torch.nn.Module):
    """``torch.nn.EmbeddingBag`` without a limit to its keys, and without memory here.

        table = ps.table("emb", 16, pserver.Adagrad(0.05, row_wise=True),
                         init=pserver.Uniform(-0.05, 0.05, seed=1))
        bags = pserver.torch.RemoteEmbedding(table, mode="mean")
        loss(tower(bags(keys)), y).backward()   # pulls the batch's rows, pushes their gradients

    ``forward`` reads each key of the batch once. ``backward`` adds the gradients of these rows to
    the table, whose optimizer applies them at once: the layer has no parameters, and an optimizer
    of torch nothing to do for it. So each ``backward`` is a step; scale the loss where several make
    one. In ``eval()``, and without gradients, nothing is added.

    Args:
        table: of float32 or float64.
        mode: what becomes of the rows of a bag: their ``"sum"`` or ``"mean"``; ``"rows"``: every
            key has its own row in the result, as of ``torch.nn.Embedding``.
        padding_idx: a key that stands for none, and fills bags of different lengths up: it is
            neither read nor trained, a bag's sum and mean are without it, and in the mode
            ``"rows"`` its row is zeros, as torch's are unless somebody writes to them.
    """

    def __init__(self, table: Table, mode: Mode = "sum", padding_idx: int | None = None) -> None:
        super().__init__()
        if table.dtype not in _TYPES:
            raise TypeError(f"{table.name}: rows of {table.dtype} have no gradients")
        if mode not in ("rows", "sum", "mean"):
            raise ValueError(f"{table.name}: a mode {mode!r}")
        self.table = table
        self.mode = mode
        self.padding_idx = padding_idx
        # As keys travel: -1 is a key of 64 bits, too.
        self._padding: Any = None
        if padding_idx is not None:
            self._padding = as_keys(table.name, [padding_idx])[0]

    def forward(self, keys: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Rows of the batch's keys.

        Args:
            keys: a tensor of whole numbers: of two dimensions each row is a bag; of one with
                `offsets`, where each bag begins. Of any shape in the mode ``"rows"``.
            offsets, per_sample_weights: as of ``torch.nn.EmbeddingBag``.

        Returns:
            A tensor on the keys' device: a row for each bag, or for each key.
        """
        numbers, places = np.unique(as_keys(self.table.name, keys.detach().cpu()),
                                    return_inverse=True)
        padding = None
        if self._padding is not None:
            numbers, places, padding = self._without_padding(numbers, places)
        rows = self._rows(numbers).to(keys.device)
        if padding is not None:
            rows = torch.cat([rows, rows.new_zeros(1, self.table.width)])
        where = torch.from_numpy(places.reshape(tuple(keys.shape))).to(keys.device)
        if self.mode == "rows":
            return torch.nn.functional.embedding(where, rows, padding)
        return torch.nn.functional.embedding_bag(where, rows, offsets, mode=self.mode,
                                                 per_sample_weights=per_sample_weights,
                                                 padding_idx=padding)

    def _without_padding(self, numbers: Any, places: Any) -> tuple[Any, Any, int | None]:
        """The keys that have rows, and the place behind them for the one that has none; None where
        the batch is without it."""
        at = int(np.searchsorted(numbers, self._padding))
        if at == len(numbers) or numbers[at] != self._padding:
            return numbers, places, None
        last = len(numbers) - 1
        moved = np.where(places == at, last, places - (places > at))
        return np.delete(numbers, at), moved, last

    def _rows(self, numbers: Any) -> Any:
        """A tensor whose gradient goes to the table as soon as there is one."""
        rows = torch.from_numpy(self.table.get(numbers))
        if self.training and torch.is_grad_enabled():
            rows.requires_grad_()
            if len(numbers):  # else a batch of padding alone
                rows.register_hook(lambda gradient: self.table.add(numbers, gradient))
        return rows

    def extra_repr(self) -> str:
        """For ``print(model)``."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.table.name!r}, width={self.table.width}, mode={self.mode!r}{padding}"
