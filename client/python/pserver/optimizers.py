# SPDX-License-Identifier: Apache-2.0
"""Optimizers: how servers apply the gradients that are pushed.

Each is a small frozen dataclass; ``client.initialize(values, optimizer=Adam(lr=1e-3))`` hands it
to the servers, which keep its state (momenta, moments) beside the values. The formulas are those
of PyTorch wherever both have the rule.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from . import checked
from .protobuf import double, message, number

Policy = Literal["linear", "poly", "caffe_poly", "exp", "discexp", "manual", "pass_manual"]
Nonfinite = Literal["reject", "skip", "allow"]

_POLICIES: dict[str, int] = {"linear": 1, "poly": 201, "caffe_poly": 202, "exp": 203,
                             "discexp": 204, "manual": 205, "pass_manual": 206}
_NONFINITE: dict[str, int] = {"reject": 0, "skip": 1, "allow": 2}
_COMBINE: dict[str, int] = {"average": 0, "sum": 1, "weighted": 2}
_LATE: dict[str, int] = {"drop": 0, "next": 1}
_OVERFLOW: dict[str, int] = {"saturate": 0, "wrap": 1, "fail": 2}


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A learning rate that changes with n, the pushes that a parameter had (times
    ``samples_per_step``).

    ======================  ==============================================================
    ``linear``              max(lr - a n, b)
    ``poly``                lr (1 + a n)^-b
    ``caffe_poly``          lr (1 - n/a)^b, 0 after a
    ``exp``, ``discexp``    lr a^(n/b); with n/b rounded down
    ``manual``              lr times a factor for each segment: ``"1000:1,2000:0.1"``
    ``pass_manual``         the same by passes of ``steps_per_pass`` pushes
    ======================  ==============================================================
    """

    policy: Policy
    a: float = 0.0
    b: float = 0.0
    segments: str = ""
    steps_per_pass: int = 1
    samples_per_step: int = 1

    def __post_init__(self) -> None:
        checked.settings(self)

    def config(self, lr: float) -> bytes:
        """The fields of an OptimizerConfig for this schedule over `lr`."""
        rates = double(1, lr) + double(2, self.a) + double(3, self.b)
        out = number(11, _POLICIES[self.policy]) + number(209, self.samples_per_step)
        if self.policy == "linear":
            return out + message(13, rates)
        rates += message(4, self.segments.encode()) + number(5, self.steps_per_pass)
        return out + message(206, rates)


@dataclasses.dataclass(frozen=True)
class Rounds:
    """A parameter is trained in rounds: each version is made of one gradient of every worker.

    Args:
        workers: how many there are; their numbers are 0 to workers - 1.
        quorum: a round ends when so many have contributed; 0: when all have.
        grace: seconds from its first contribution after which a round ends without those that are
            missing; the rounds after it do not wait for them until they contribute again. 0: a
            round waits for ever.
        combine: the ``"average"`` of the contributions, their ``"sum"``, or their mean by the
            ``weight`` of each (``"weighted"``).
        late: a contribution to a round that is over counts nowhere (``"drop"``), or in the round
            that is open (``"next"``).
    """

    workers: int
    quorum: int = 0
    grace: float = 0.0
    combine: Literal["average", "sum", "weighted"] = "average"
    late: Literal["drop", "next"] = "drop"

    def __post_init__(self) -> None:
        checked.settings(self)

    def config(self) -> bytes:
        """The field of an OptimizerConfig that says this."""
        return message(210, number(1, self.workers) + number(2, self.quorum)
                        + number(3, round(1000 * self.grace)) + number(4, _COMBINE[self.combine])
                        + number(5, _LATE[self.late]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What all optimizers have in common.

    Args:
        schedule: how the learning rate changes; None: it does not.
        clip_norm: a gradient is scaled so that its L2 norm is at most this; 0: off.
        clip_value: each element of a gradient is held in [-clip_value, clip_value]; 0: off.
        l2: added to the gradient as l2 * value (PyTorch's ``weight_decay`` but of AdamW).
        nonfinite: a gradient with infinities or NaN is refused (InvalidError), counted without
            effect, or applied.
        rounds: how the gradients of several workers make one; None: each is applied by itself.
    """

    schedule: Schedule | None = None
    clip_norm: float = 0.0
    clip_value: float = 0.0
    l2: float = 0.0
    nonfinite: Nonfinite = "reject"
    rounds: Rounds | None = None

    _NUMBER: ClassVar[int] = 1
    _FIELD: ClassVar[int] = 0

    def __post_init__(self) -> None:
        checked.settings(self)

    def _rate(self) -> float | None:
        """The learning rate; None: the rule has none."""
        return None

    def _own(self) -> bytes:
        """The rule's own message."""
        return b""

    def config(self) -> bytes:
        """The serialized OptimizerConfig that goes to the servers."""
        out = number(1, self._NUMBER)
        if self._FIELD:
            out += message(self._FIELD, self._own())
        rate = self._rate()
        if rate is not None and self.schedule is not None:
            out += self.schedule.config(rate)
        elif rate is not None:
            out += number(11, 0) + message(12, double(1, rate))
        if self.clip_norm:
            out += double(101, self.clip_norm)
        if self.clip_value:
            out += double(102, self.clip_value)
        if self.l2:
            out += double(208, self.l2)
        if self.rounds is not None:
            out += self.rounds.config()
        return out + number(207, _NONFINITE[self.nonfinite])


def config_of(name: str, optimizer: object) -> bytes:
    """The configuration that a parameter is to have; TypeError for what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: the optimizer is {optimizer!r}: give one, such as "
                        "pserver.Adam(lr=1e-3)")
    return optimizer.config()


def change(optimizer: Optimizer | None, *, lr: float | None = None,
           schedule: Schedule | None = None, clip_norm: float | None = None,
           clip_value: float | None = None, l2: float | None = None,
           nonfinite: Nonfinite | None = None, rounds: Rounds | None = None) -> bytes:
    """The OptimizerConfig whose fields take the place of those that servers have.

    All of `optimizer` first: also that it clips nothing, which a configuration does not say. The
    rate is in another message for each kind of schedule, and so goes to all of them.
    """
    out = b""
    if optimizer is not None:
        config_of("configure", optimizer)
        out += optimizer.config() + double(101, optimizer.clip_norm)
        out += double(102, optimizer.clip_value) + double(208, optimizer.l2)
    if schedule is not None:
        if lr is None:
            raise ValueError("a schedule needs the rate that it begins with: give lr, too")
        out += schedule.config(lr)
    if lr is not None:
        checked.real("lr", lr)
        out += b"".join(message(field, double(1, lr)) for field in (12, 13, 206))
    for field, what, value in ((101, "clip_norm", clip_norm), (102, "clip_value", clip_value),
                               (208, "l2", l2)):
        if value is not None:
            out += double(field, checked.real(what, value))
    if nonfinite is not None:
        out += number(207, checked.choice("nonfinite", nonfinite, _NONFINITE))
    if rounds is not None:
        out += rounds.config()
    if not out:
        raise ValueError("nothing is to be changed")
    return out


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """value -= lr * gradient.

    Args:
        lr: the learning rate.
        momentum: the share of the last step that is kept, 0 to below 1; with one the servers keep
            one number for each element.
        nesterov: looks ahead by the momentum, as PyTorch does.
    """

    lr: float
    momentum: float = 0.0
    nesterov: bool = False

    _NUMBER = 1
    _FIELD = 3

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return double(21, self.momentum) + number(24, int(self.nesterov))


@dataclasses.dataclass(frozen=True)
class Outer(Optimizer):
    """The outer step of local SGD and DiLoCo: Nesterov's momentum over pseudo-gradients.

    Workers train a copy each for some steps and push how far it went: the values that they began
    with minus those that they ended with. The formula is that of ``torch.optim.SGD`` with
    ``nesterov=True``, also while the rate changes.

    Args:
        lr: the learning rate; with 1, and a momentum of 0, the values become the mean of the
            copies.
        momentum: the share of the gathered gradients that a push leaves, 0 to below 1. The servers
            keep one number for each element.
    """

    lr: float = 0.7
    momentum: float = 0.9

    _NUMBER = 208
    _FIELD = 211

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return double(1, self.momentum)


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Steps by the mean of gradients over the root of the mean of their squares, bias corrected.

    Args:
        lr: the learning rate: about the size of a step of an element.
        betas: how much of the two means a push leaves, each 0 to below 1. The servers keep both
            means: two numbers for each element.
        eps: stands beside the root, as in PyTorch.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    _NUMBER = 4
    _FIELD = 6

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (double(41, self.betas[0]) + double(42, self.betas[1]) + double(43, self.eps)
                + number(203, 1))


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam whose weight decay does not pass through the means.

    Args:
        lr, betas, eps: as of ``Adam``.
        weight_decay: each push takes lr * weight_decay * value off, besides.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    _NUMBER = 201
    _FIELD = 201

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (double(1, self.betas[0]) + double(2, self.betas[1]) + double(3, self.eps)
                + double(4, self.weight_decay))


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """value -= lr * gradient / (root of the sum of all squared gradients + eps).

    Args:
        lr: the learning rate.
        eps: stands beside the root, as in PyTorch.
        initial_accumulator: what the sums begin with. The servers keep one for each element.
        row_wise: of a table only: one sum for a row, of the mean of its squared gradients.
    """

    lr: float = 0.01
    eps: float = 1e-10
    initial_accumulator: float = 0.0
    row_wise: bool = False

    _NUMBER = 3
    _FIELD = 5

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (double(41, self.eps) + double(202, self.initial_accumulator) + number(203, 1)
                + (number(204, 1) if self.row_wise else b""))


@dataclasses.dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps as large as the last ones were, by the ratio of two running means of squares.

    Args:
        lr: a factor of the step.
        rho: how much of the means a push leaves, 0 to below 1. The servers keep two numbers for
            each element.
        eps: stands under both roots, as in PyTorch.
    """

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6

    _NUMBER = 2
    _FIELD = 4

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return double(31, self.eps) + double(33, self.rho)


@dataclasses.dataclass(frozen=True)
class RMSProp(Optimizer):
    """value -= lr * gradient / (root of the running mean of squared gradients + eps).

    Args:
        lr: the learning rate.
        rho: how much of the mean a push leaves, 0 to below 1 (PyTorch's ``alpha``; there is no
            momentum). The servers keep one number for each element.
        eps: stands beside the root, as in PyTorch.
    """

    lr: float = 0.01
    rho: float = 0.99
    eps: float = 1e-8

    _NUMBER = 202
    _FIELD = 202

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return double(1, self.rho) + double(2, self.eps)


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """FTRL-proximal, which holds weights of rare features at exactly 0.

    Args:
        lr: the learning rate, above 0 and constant: a ``schedule`` is refused.
        l1: the higher, the more weights are 0.
        l2_proximal: the rule's own term, beside ``l2`` of every optimizer.
        beta: added to the root, which makes the first steps smaller.
        initial_accumulator: what the sums of squares begin with. The servers keep two numbers for
            each element.
    """

    lr: float = 0.1
    l1: float = 0.0
    l2_proximal: float = 0.0
    beta: float = 0.0
    initial_accumulator: float = 0.1

    _NUMBER = 203
    _FIELD = 203

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (double(1, self.l1) + double(2, self.l2_proximal) + double(3, self.beta)
                + double(4, self.initial_accumulator))


@dataclasses.dataclass(frozen=True)
class Assign(Optimizer):
    """value = what was pushed: a shared variable rather than a weight."""

    _NUMBER = 204


@dataclasses.dataclass(frozen=True)
class Add(Optimizer):
    """value += what was pushed: sums and counts.

    Args:
        overflow: a whole number that leaves its type's range stays at the end of the range, wraps
            round, or the push is refused (InvalidError).
    """

    overflow: Literal["saturate", "wrap", "fail"] = "saturate"

    _NUMBER = 205
    _FIELD = 204

    def _own(self) -> bytes:
        return number(1, _OVERFLOW[self.overflow])


@dataclasses.dataclass(frozen=True)
class Max(Optimizer):
    """value = the greater of value and what was pushed, element by element."""

    _NUMBER = 206


@dataclasses.dataclass(frozen=True)
class Min(Optimizer):
    """value = the lesser of value and what was pushed, element by element."""

    _NUMBER = 207
