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
    """

    def __init__(self, table: Table, mode: Mode = "sum") -> None:
        super().__init__()
        if table.dtype not in _TYPES:
            raise TypeError(f"{table.name}: rows of {table.dtype} have no gradients")
        if mode not in ("rows", "sum", "mean"):
            raise ValueError(f"{table.name}: a mode {mode!r}")
        self.table = table
        self.mode = mode

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
        rows = self._rows(numbers).to(keys.device)
        where = torch.from_numpy(places.reshape(tuple(keys.shape))).to(keys.device)
        if self.mode == "rows":
            return torch.nn.functional.embedding(where, rows)
        return torch.nn.functional.embedding_bag(where, rows, offsets, mode=self.mode,
                                                 per_sample_weights=per_sample_weights)

    def _rows(self, numbers: Any) -> Any:
        """A tensor whose gradient goes to the table as soon as there is one."""
        rows = torch.from_numpy(self.table.get(numbers))
        if self.training and torch.is_grad_enabled():
            rows.requires_grad_()
            rows.register_hook(lambda gradient: self.table.add(numbers, gradient))
        return rows

    def extra_repr(self) -> str:
        """For ``print(model)``."""
        return f"{self.table.name!r}, width={self.table.width}, mode={self.mode!r}"
