# SPDX-License-Identifier: Apache-2.0
"""The work that the tests of this folder give to a server: parameters of many rules and types, and
pushes in every form, the same for every server that is given the same numbers."""

import array
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))
sys.path.insert(0, os.path.join(HERE, "..", "psckpt"))
sys.path.insert(0, os.path.join(HERE, "..", "rpc"))

from blackbox import BIN, Server  # noqa: E402,F401
from calls import MESSAGES  # noqa: E402
from encoded_content import cut  # noqa: E402

INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64 = range(6)
CODES = {INT32: "i", UINT32: "I", INT64: "q", UINT64: "Q", FLOAT32: "f", FLOAT64: "d"}
NATIVE, AS_FLOAT32, AS_FLOAT64, BFLOAT16, FLOAT16, INT8, TOP_K = range(7)
EMULATOR = os.path.join(BIN, "libpserver_emu.so")


def message(kind, /, **fields):
    return MESSAGES[f"pserver.v1.{kind}"](**fields)


def config(**fields):
    """An OptimizerConfig; fields of messages within it as dictionaries."""
    made = MESSAGES["paddle.OptimizerConfig"](const_lr={"learning_rate": 0.1})
    for key, value in fields.items():
        if isinstance(value, dict):
            for name, number in value.items():
                setattr(getattr(made, key), name, number)
        else:
            setattr(made, key, value)
    return made.SerializeToString()


# name -> (type, elements, config)
PARAMETERS = {
    "sgd": (FLOAT32, 1000, config(optimizer=1)),
    "momentum": (FLOAT32, 70001, config(optimizer=1, sgd={"momentum": 0.9})),
    "nesterov": (FLOAT64, 333, config(optimizer=1, sgd={"momentum": 0.9, "nesterov": True})),
    "outer": (FLOAT32, 4095, config(optimizer=208)),
    "adagrad": (FLOAT32, 1023, config(optimizer=3)),
    "adam": (FLOAT32, 200003, config(optimizer=4, adam={"decay": 0.01})),
    "adam64": (FLOAT64, 5, config(optimizer=4)),
    "adamw": (FLOAT32, 65536, config(optimizer=201)),
    "clipped": (FLOAT32, 4097, config(optimizer=4, clip_norm=1.5)),
    "ftrl": (FLOAT32, 31, config(optimizer=203)),
    "count": (INT64, 77, config(optimizer=205)),
    "whole": (INT32, 2000, config(optimizer=1)),
    "most": (UINT32, 9, config(optimizer=206)),
    "sure": (INT32, 50, config(optimizer=205, add={"overflow": 2})),  # stays on the host
}


def values(dice, kind, count):
    if kind in (FLOAT32, FLOAT64):
        return array.array(CODES[kind], (dice.uniform(-2, 2) for _ in range(count))).tobytes()
    low = 0 if kind in (UINT32, UINT64) else -1000
    return struct.pack(f"<{count}{CODES[kind]}", *(dice.randrange(low, 1000) for _ in range(count)))


def encoded(dice, encoding, count):
    """Some content in that encoding."""
    if encoding == AS_FLOAT64:
        return values(dice, FLOAT64, count)
    if encoding == BFLOAT16:
        return struct.pack(f"<{count}H", *(0x3f80 + dice.randrange(128) for _ in range(count)))
    if encoding == FLOAT16:
        return struct.pack(f"<{count}e", *(dice.uniform(-2, 2) for _ in range(count)))
    if encoding == INT8:
        groups = (count + 255) // 256
        return (values(dice, FLOAT32, groups) +
                struct.pack(f"<{count}b", *(dice.randrange(-127, 128) for _ in range(count))))
    if encoding == TOP_K:
        kept = min(count, 1 + count // 50)
        indices = sorted(dice.sample(range(count), kept))
        return struct.pack(f"<{kept}I", *indices) + values(dice, FLOAT32, kept)
    return values(dice, FLOAT32, count)


class Work:
    """What one trainer does; `step` is the same for every server."""

    def __init__(self, calls, seed, parameters=None):
        self.calls = calls
        self.seed = seed
        self.parameters = parameters or PARAMETERS

    def initialise(self):
        dice = random.Random(self.seed)
        for name, (kind, count, settings) in self.parameters.items():
            self.calls.call("InitParam", message(
                "InitParamRequest", name=name, element_type=kind, config=settings,
                content=values(dice, kind, count)))
        self.calls.finish()

    def request(self, number, item=0):
        return message("RequestId", client_id=b"device-work", session=1,
                       sequence=number * 1000 + item)

    def grad(self, dice, name, **fields):
        kind, count, _ = self.parameters[name]
        encoding = dice.choice(range(7)) if kind == FLOAT32 else NATIVE
        content = (encoded(dice, encoding, count) if kind == FLOAT32
                   else values(dice, kind, count))
        return message("SendGradRequest", name=name, element_type=kind, content=content,
                       encoding=encoding, **fields)

    def step(self, number):
        """One step of training: single pushes, a batch, a push in ranges; gives what was pulled."""
        dice = random.Random(self.seed * 7919 + number)
        names = sorted(self.parameters)
        for item, name in enumerate(dice.sample(names, min(3, len(names)))):
            self.calls.call("SendGrad",
                            self.grad(dice, name, request=self.request(number, item)))
        self.ranges(dice, number)
        batch = message("PushPullRequest", request=self.request(number, 100),
                        grads=[self.grad(dice, name) for name in names],
                        params=[message("GetParamRequest", name=name) for name in names])
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(
            self.calls.call("PushPull", batch))
        bad = [row.status for row in (*reply.grads, *reply.params) if row.status.code]
        if bad:
            raise AssertionError(bad)
        return {row.reply.name: (row.reply.version, row.reply.content) for row in reply.params}

    def ranges(self, dice, number):
        """The largest float32 gradient, in any encoding, in three pieces."""
        name = max((n for n, row in self.parameters.items() if row[0] == FLOAT32),
                   key=lambda n: self.parameters[n][1])
        count = self.parameters[name][1]
        encoding = dice.choice(range(7))
        content = encoded(dice, encoding, count)
        ends = [0, count // 3 // 256 * 256, count // 2 // 256 * 256, count]
        for first, end in zip(ends, ends[1:]):
            self.calls.call("SendGrad", message(
                "SendGradRequest", name=name, element_type=FLOAT32, encoding=encoding,
                content=cut(encoding, content, count, first, end), offset=first, count=end - first,
                request=self.request(number, 50)))
