# SPDX-License-Identifier: Apache-2.0
"""Optimizers: how servers apply the gradients that are pushed.

Each is a small frozen dataclass; ``client.initialize(values, optimizer=Adam(lr=1e-3))`` hands it
to the servers, which keep its state (momenta, moments) beside the values. The formulas are those
of PyTorch wherever both have the rule.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import ClassVar, Literal

Policy = Literal["linear", "poly", "caffe_poly", "exp", "discexp", "manual", "pass_manual"]
Nonfinite = Literal["reject", "skip", "allow"]

_POLICIES: dict[str, int] = {"linear": 1, "poly": 201, "caffe_poly": 202, "exp": 203,
                             "discexp": 204, "manual": 205, "pass_manual": 206}
_NONFINITE: dict[str, int] = {"reject": 0, "skip": 1, "allow": 2}
_OVERFLOW: dict[str, int] = {"saturate": 0, "wrap": 1, "fail": 2}


# ---- Protocol buffers, as much of them as an OptimizerConfig takes ----

def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


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

    def config(self, lr: float) -> bytes:
        """The fields of an OptimizerConfig for this schedule over `lr`."""
        rates = _double(1, lr) + _double(2, self.a) + _double(3, self.b)
        out = _number(11, _POLICIES[self.policy]) + _number(209, self.samples_per_step)
        if self.policy == "linear":
            return out + _message(13, rates)
        rates += _message(4, self.segments.encode()) + _number(5, self.steps_per_pass)
        return out + _message(206, rates)


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
    """

    schedule: Schedule | None = None
    clip_norm: float = 0.0
    clip_value: float = 0.0
    l2: float = 0.0
    nonfinite: Nonfinite = "reject"

    _NUMBER: ClassVar[int] = 1
    _FIELD: ClassVar[int] = 0

    def _rate(self) -> float | None:
        """The learning rate; None: the rule has none."""
        return None

    def _own(self) -> bytes:
        """The rule's own message."""
        return b""

    def config(self) -> bytes:
        """The serialized OptimizerConfig that goes to the servers."""
        out = _number(1, self._NUMBER)
        if self._FIELD:
            out += _message(self._FIELD, self._own())
        rate = self._rate()
        if rate is not None and self.schedule is not None:
            out += self.schedule.config(rate)
        elif rate is not None:
            out += _number(11, 0) + _message(12, _double(1, rate))
        if self.clip_norm:
            out += _double(101, self.clip_norm)
        if self.clip_value:
            out += _double(102, self.clip_value)
        if self.l2:
            out += _double(208, self.l2)
        return out + _number(207, _NONFINITE[self.nonfinite])


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """value -= lr * gradient; with ``momentum`` (and ``nesterov``) as PyTorch has them."""

    lr: float
    momentum: float = 0.0
    nesterov: bool = False

    _NUMBER = 1
    _FIELD = 3

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return _double(21, self.momentum) + _number(24, int(self.nesterov))


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with bias correction; ``eps`` stands beside the root, as in PyTorch."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    _NUMBER = 4
    _FIELD = 6

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (_double(41, self.betas[0]) + _double(42, self.betas[1]) + _double(43, self.eps)
                + _number(203, 1))


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam whose ``weight_decay`` does not pass through the moments."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    _NUMBER = 201
    _FIELD = 201

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (_double(1, self.betas[0]) + _double(2, self.betas[1]) + _double(3, self.eps)
                + _double(4, self.weight_decay))


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad; ``eps`` stands beside the root, as in PyTorch."""

    lr: float = 0.01
    eps: float = 1e-10
    initial_accumulator: float = 0.0

    _NUMBER = 3
    _FIELD = 5

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return (_double(41, self.eps) + _double(202, self.initial_accumulator) + _number(203, 1))


@dataclasses.dataclass(frozen=True)
class Adadelta(Optimizer):
    """Adadelta, with a learning rate of 1 unless said otherwise."""

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6

    _NUMBER = 2
    _FIELD = 4

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return _double(31, self.eps) + _double(33, self.rho)


@dataclasses.dataclass(frozen=True)
class RMSProp(Optimizer):
    """RMSProp without momentum; ``rho`` is PyTorch's ``alpha``."""

    lr: float = 0.01
    rho: float = 0.99
    eps: float = 1e-8

    _NUMBER = 202
    _FIELD = 202

    def _rate(self) -> float:
        return self.lr

    def _own(self) -> bytes:
        return _double(1, self.rho) + _double(2, self.eps)


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """FTRL-proximal, for sparse linear models; ``l2_proximal`` is its own term beside ``l2``."""

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
        return (_double(1, self.l1) + _double(2, self.l2_proximal) + _double(3, self.beta)
                + _double(4, self.initial_accumulator))


@dataclasses.dataclass(frozen=True)
class Assign(Optimizer):
    """value = what was pushed: a shared variable rather than a weight."""

    _NUMBER = 204


@dataclasses.dataclass(frozen=True)
class Add(Optimizer):
    """value += what was pushed; ``overflow`` of whole numbers saturates, wraps or fails."""

    overflow: Literal["saturate", "wrap", "fail"] = "saturate"

    _NUMBER = 205
    _FIELD = 204

    def _own(self) -> bytes:
        return _number(1, _OVERFLOW[self.overflow])


@dataclasses.dataclass(frozen=True)
class Max(Optimizer):
    """value = the greater of value and what was pushed, element by element."""

    _NUMBER = 206


@dataclasses.dataclass(frozen=True)
class Min(Optimizer):
    """value = the lesser of value and what was pushed, element by element."""

    _NUMBER = 207
