# SPDX-License-Identifier: Apache-2.0
"""Encoded gradients in ranges, through kill -9: for every rule, float type and encoding, what came
in ranges has the bits of what came whole, as it was applied and as it is replayed from the journal.
"""

import os
import random
import sys
import unittest

from blackbox import Server
from calls import MESSAGES

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "rpc"))

from encoded_content import NAMES, NATIVE, TOP_K, cut, make  # noqa: E402

COUNT = 40 * 1024 + 100  # elements: 160 KiB of float32, three ranges
STEP = 16 * 1024
CUTS = [(first, min(first + STEP, COUNT)) for first in range(0, COUNT, STEP)]
TYPES = {"float32": (4, 4), "float64": (5, 8)}  # number of the type, bytes of an element
LOGGED = 2


def rules():
    """Every rule, with what decides how pairs are applied."""
    config = MESSAGES["paddle.OptimizerConfig"]
    names = config.DESCRIPTOR.enum_types_by_name["Optimizer"].values_by_name
    for name in names:
        made = config(optimizer=names[name].number)
        made.const_lr.learning_rate = 0.1
        yield name, made.SerializeToString()
    momentum = config(l2=0.01, clip_norm=3.0)
    momentum.sgd.momentum = 0.9
    momentum.const_lr.learning_rate = 0.1
    yield "momentum_clipped", momentum.SerializeToString()


class Replayed(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("PS_SEED", random.randrange(2**32)))
        self.dice = random.Random(self.seed)
        self.sequence = 0

    def call(self, method, kind, /, **fields):
        message = MESSAGES[f"pserver.v1.{kind}Request"](**fields)
        reply = self.server.calls.call(method, message)
        return MESSAGES[f"pserver.v1.{kind}Response"].FromString(reply)

    def push(self, name, kind, encoding, content, first=0, count=0):
        return self.call("SendGrad", "SendGrad", name=name, element_type=kind, encoding=encoding,
                         content=content, offset=first, count=count, ack=LOGGED,
                         request=MESSAGES["pserver.v1.RequestId"](
                             client_id=b"replayed", session=1, sequence=self.sequence))

    def push_twice(self, name, kind, width, encoding, pairs=1500):
        """The same to both, in ranges and whole."""
        content = make(encoding, COUNT, self.dice, pairs=pairs, width=width)
        self.sequence += 1
        for first, end in self.dice.sample(CUTS, len(CUTS)):
            part = cut(encoding, content, COUNT, first, end, width)
            reply = self.push(name, kind, encoding, part, first, end - first)
        self.assertFalse(reply.staged)
        self.sequence += 1
        self.push(name + ".whole", kind, encoding, content)

    def values(self):
        got = {name: self.call("GetParam", "GetParam", name=name) for name in self.names}
        for name, reply in got.items():
            whole = got[name.removesuffix(".whole")]
            self.assertEqual(reply.version, whole.version)
            self.assertTrue(reply.content == whole.content, f"{name} differs, seed {self.seed}")
        return {name: (reply.version, reply.content) for name, reply in got.items()}

    def initialise(self):
        self.names, self.parameters = [], []
        for rule, config in rules():
            for type_name, (kind, width) in TYPES.items():
                start = make(NATIVE, COUNT, self.dice, width=width)
                name = f"{rule}.{type_name}"
                self.parameters.append((name, kind, width))
                for each in (name, name + ".whole"):
                    self.names.append(each)
                    self.call("InitParam", "InitParam", name=each, element_type=kind, content=start,
                              config=config)
        self.call("FinishInitParams", "FinishInitParams")

    def push_all(self):
        for name, kind, width in self.parameters:
            for encoding in range(1, len(NAMES)):
                with self.subTest(name=name, encoding=NAMES[encoding], seed=self.seed):
                    self.push_twice(name, kind, width, encoding)
            self.push_twice(name, kind, width, TOP_K, pairs=0)

    def test_every_rule_type_and_encoding(self):
        with Server("--ack", "logged") as self.server:
            self.initialise()
            self.push_all()
            before = self.values()
            self.server.process.kill()
            self.server.start()
            self.assertTrue(self.values() == before, f"seed {self.seed}")
            self.push_all()  # with the states that were replayed
            after = self.values()
            self.server.process.kill()
            self.server.start()
            self.assertTrue(self.values() == after, f"seed {self.seed}")

    def test_what_was_staged_only_is_gone_and_comes_again(self):
        with Server("--ack", "logged") as self.server:
            self.initialise()
            name, kind, width = self.parameters[0]
            for encoding in range(1, len(NAMES)):
                content = make(encoding, COUNT, self.dice, pairs=1500, width=width)
                self.sequence += 1
                parts = [(cut(encoding, content, COUNT, first, end, width), first, end - first)
                         for first, end in CUTS]
                for part in parts[:-1]:
                    self.assertTrue(self.push(name, kind, encoding, *part).staged)
                self.server.process.kill()
                self.server.start()
                self.assertTrue(self.push(name, kind, encoding, *parts[-1]).staged)
                for part in parts[:-1]:
                    reply = self.push(name, kind, encoding, *part)
                self.assertEqual((reply.staged, reply.duplicate), (False, False))
                self.server.process.kill()
                self.server.start()
                for part in parts:  # its answer was lost: all of it comes again
                    reply = self.push(name, kind, encoding, *part)
                    self.assertEqual((reply.staged, reply.duplicate, reply.version),
                                     (False, True, encoding))
                self.sequence += 1
                self.push(name + ".whole", kind, encoding, content)
                self.values()


if __name__ == "__main__":
    unittest.main(verbosity=2)
