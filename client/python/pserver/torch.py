# SPDX-License-Identifier: Apache-2.0
"""PyTorch over pserver: an optimizer whose work the servers do.

    model = torch.nn.Linear(784, 10)
    with pserver.connect("ps-0:8000,ps-1:8000", job="mnist") as ps:
        opt = pserver.torch.RemoteOptimizer(model.named_parameters(), ps, pserver.Adam(lr=1e-3))
        for x, y in batches:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            opt.step()   # pushes every .grad, pulls into .data

Tensors stay where they are (``data_ptr`` does not change), so that compiled graphs and others that
hold them go on. Tensors of float16, float32 and float64 on the CPU travel from and to where they
lie; others (bfloat16, CUDA, channels_last) are staged in a tensor of float32 on the host, and the
servers' float32 values are then the master copy that mixed precision wants anyway.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import torch

from .arrays import Array
from .client import Client
from .remote_embedding import RemoteEmbedding
from .operation import Operation
from .optimizers import SGD, Optimizer, Outer

__all__ = ["LocalSteps", "RemoteEmbedding", "RemoteOptimizer", "load_state_dict"]

_AS_THEY_ARE = (torch.float16, torch.float32, torch.float64)


@dataclasses.dataclass
class _Slot:
    """A parameter, and the memory through which it travels."""

    name: str
    parameter: Any
    staging: Any  # a tensor on the host; None: the parameter's own memory
    target: Array

    def gradient(self) -> Array:
        """The gradient as an array: its own memory, or a copy of the type that travels."""
        if self.parameter.grad is None:
            return np.zeros_like(self.target)
        gradient = self.parameter.grad.detach()
        if gradient.is_sparse:
            raise TypeError(f"{self.name}: sparse gradients do not travel; use dense ones")
        array: Array
        if self.staging is None and gradient.dtype == self.parameter.dtype:
            array = gradient.numpy()
        else:
            like = self.parameter if self.staging is None else self.staging
            array = gradient.to(device="cpu", dtype=like.dtype).numpy()
        return array

    def moved_from(self, begun: Array) -> Array:
        """How far the parameter has gone from `begun`, as a gradient: the way back."""
        if self.staging is not None:
            self.staging.copy_(self.parameter.data)
        difference: Array = begun - self.target
        return difference

    def put_back(self) -> None:
        """After a pull: from the staging tensor to where the model has it."""
        if self.staging is not None:
            self.parameter.data.copy_(self.staging, non_blocking=True)


def _slot(name: str, parameter: Any) -> _Slot:
    data = parameter.data
    if data.device.type == "cpu" and data.dtype in _AS_THEY_ARE and data.is_contiguous():
        return _Slot(name, parameter, None, data.numpy())
    kind = torch.float64 if data.dtype == torch.float64 else torch.float32
    staging = torch.empty(data.shape, dtype=kind, pin_memory=data.is_cuda)
    staging.copy_(data)
    return _Slot(name, parameter, staging, staging.numpy())


class RemoteOptimizer(torch.optim.Optimizer):
    """Pushes gradients to servers, which keep the optimizer's state, and pulls the new values.

    With one trainer this gives what ``torch.optim`` gives; with several, each step applies this
    trainer's gradients to what all of them have made. Trainers that say their number, and whose
    optimizer has ``Rounds``, make each step together, as ``DistributedDataParallel`` does: the
    servers average the gradients of all, and every trainer goes on from the same values.

        rounds = pserver.Rounds(workers=4, grace=2.0)
        opt = pserver.torch.RemoteOptimizer(model.named_parameters(), ps,
                                            pserver.Adam(lr=1e-3, rounds=rounds), worker=rank)

    A learning rate that is changed in ``param_groups[0]["lr"]``, also by an ``LRScheduler`` of
    torch, goes to the servers once, before the next step, and holds for the gradients of every
    trainer. That is a call for each change: for one with every step give the optimizer a schedule
    of the servers' (``pserver.Schedule``).

    Args:
        named_parameters: ``model.named_parameters()``; those without ``requires_grad`` stay here.
        client: of ``pserver.connect()``; it outlives the optimizer.
        optimizer: what the servers do with gradients.
        initialize: the first trainer gives the servers its values, all others take theirs. False:
            the job is initialised elsewhere.
        worker: who this is, from 0, where the optimizer has ``Rounds``. A parameter without a
            gradient counts with zeros then, since the others wait for it.
        weight: of this trainer's gradients, where the rounds are ``"weighted"``: rows, say.
        prefix: put before every name, for several models in one job.
        timeout: seconds for each step; None: the client's.
    """

    def __init__(self, named_parameters: Iterable[tuple[str, Any]], client: Client,
                 optimizer: Optimizer = SGD(1e-3), *, initialize: bool = True,
                 worker: int | None = None, weight: float = 1.0, prefix: str = "",
                 timeout: float | None = None) -> None:
        self._slots = [_slot(prefix + name, parameter) for name, parameter in named_parameters
                       if parameter.requires_grad]
        self._client = client
        self._timeout = timeout
        self.worker = worker
        self.weight = weight
        self._told = getattr(optimizer, "lr", None)  # the rate that the servers have from here
        super().__init__([slot.parameter for slot in self._slots], {"lr": self._told})
        if initialize:
            client.initialize({slot.name: slot.target for slot in self._slots}, optimizer,
                              timeout=timeout)
        self.pull()

    def pull(self) -> None:
        """Takes the servers' values, without a push."""
        self._client.pull(into={slot.name: slot.target for slot in self._slots},
                          timeout=self._timeout)
        for slot in self._slots:
            slot.put_back()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Pushes every gradient and pulls the values that come of it, in one round trip.

        Args:
            closure: computes the loss again, as for every ``torch.optim.Optimizer``.

        Returns:
            What `closure` returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        live, gradients, targets = self._batch()
        self._client.push_pull(gradients, targets, worker=self.worker, weight=self.weight,
                               timeout=self._timeout)
        for slot in live:
            slot.put_back()
        return loss

    def step_async(self) -> Operation[None]:
        """``step`` without waiting: gradients and values must be left alone until ``wait()``.

        Raises:
            ValueError: this trainer takes part in rounds, and waits for the others in ``step``.
        """
        if self.worker is not None:
            raise ValueError("a step of rounds waits for the other workers: use step()")
        live, gradients, targets = self._batch()
        operation = self._client.push_pull_async(gradients, targets, timeout=self._timeout)

        def put_back(_: object) -> None:
            for slot in live:
                slot.put_back()

        return operation.then(put_back)

    def _batch(self) -> tuple[list[_Slot], dict[str, Array], dict[str, Array]]:
        self._tell_rate()
        live = [slot for slot in self._slots
                if slot.parameter.grad is not None or self.worker is not None]
        return (live, {slot.name: slot.gradient() for slot in live},
                {slot.name: slot.target for slot in live})

    def _tell_rate(self) -> None:
        """Once for each change that was made here; what other trainers have told stays."""
        rate = self.param_groups[0]["lr"]
        if rate == self._told:
            return
        if self._told is None:
            raise ValueError("the servers' rule has no learning rate")
        self._client.configure([slot.name for slot in self._slots], lr=float(rate),
                               timeout=self._timeout)
        self._told = rate

    def state_dict(self) -> dict[str, Any]:
        """Names, versions and the rate; moments and momenta stay on the servers
        (``psckpt export``)."""
        return {"names": [slot.name for slot in self._slots], "lr": self.param_groups[0]["lr"],
                "versions": dict(self._client.versions)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the servers' values, and has the servers take the rate with the next step.

        Raises:
            ValueError: `state_dict` is of another model.
        """
        if list(state_dict["names"]) != [slot.name for slot in self._slots]:
            raise ValueError("this state_dict is of a model with other parameters")
        self.param_groups[0]["lr"] = state_dict["lr"]
        self.pull()


class LocalSteps:
    """Local SGD and DiLoCo: an optimizer of this process steps, and now and then the servers do.

        inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
        outer = pserver.torch.LocalSteps(
            model.named_parameters(), ps, pserver.Outer(rounds=pserver.Rounds(4)), every=32,
            worker=rank)
        for x, y in batches:
            inner.zero_grad()
            loss(model(x), y).backward()
            inner.step()
            outer.step()   # in every 32nd call pushes how far the model went, and pulls

    Between two rounds nothing travels. What `inner` remembers stays here, and so do buffers, as
    those of batch normalisation. A client with ``encoding="bfloat16"`` halves what is pushed.

    Args:
        named_parameters, client, initialize, prefix, timeout: as of ``RemoteOptimizer``.
        optimizer: what the servers do with the way that the models went.
        every: calls of ``step`` from one round to the next, the same for all workers.
        worker, weight: as of ``Client.push_pull``.
    """

    def __init__(self, named_parameters: Iterable[tuple[str, Any]], client: Client,
                 optimizer: Optimizer = Outer(), *, every: int, worker: int | None = None,
                 weight: float = 1.0, initialize: bool = True, prefix: str = "",
                 timeout: float | None = None) -> None:
        if every < 1:
            raise ValueError(f"every {every} steps")
        self._slots = [_slot(prefix + name, parameter) for name, parameter in named_parameters
                       if parameter.requires_grad]
        self._targets = {slot.name: slot.target for slot in self._slots}
        self._client, self._timeout = client, timeout
        self._worker, self._weight = worker, weight
        self._every, self._steps = every, 0
        if initialize:
            client.initialize(self._targets, optimizer, timeout=timeout)
        client.pull(into=self._targets, timeout=timeout)
        self._begin()

    @torch.no_grad()
    def step(self) -> bool:
        """Counts a step of the inner optimizer; with every so many ends the round.

        Returns:
            Whether it did, and the model has the servers' values now.
        """
        self._steps += 1
        if self._steps % self._every != 0:
            return False
        moved = {slot.name: slot.moved_from(self._begun[slot.name]) for slot in self._slots}
        self._client.push_pull(moved, self._targets, worker=self._worker, weight=self._weight,
                               timeout=self._timeout)
        self._begin()
        return True

    def _begin(self) -> None:
        for slot in self._slots:
            slot.put_back()
        self._begun = {name: target.copy() for name, target in self._targets.items()}


def load_state_dict(client: Client, module: Any, *, prefix: str = "") -> None:
    """Pulls the servers' values into a module that only reads."""
    slots = [_slot(prefix + name, parameter) for name, parameter in module.named_parameters()]
    client.pull(into={slot.name: slot.target for slot in slots})
    for slot in slots:
        slot.put_back()
