# SPDX-License-Identifier: Apache-2.0
"""Parameters defined, dropped and configured while the job trains: what was answered is there after
kill -9, exactly once, and a name that comes again is another parameter."""

import os
import signal
import struct
import tempfile
import threading
import time
import unittest

import grpc

from blackbox import Server, descriptors
from calls import FLOAT32, MESSAGES, Calls
from cluster import BIN, PATIENCE

SHIM = os.path.join(BIN, "..", "tests", "fault_shim.so")  # tests/chaos/fault_shim.c
CONFIG = MESSAGES["paddle.OptimizerConfig"]


def rate(value, **fields):
    config = CONFIG(**fields)
    config.const_lr.learning_rate = value
    return config.SerializeToString()


class Trainer:
    """A client by the wire: an id, and a number for each request."""

    def __init__(self, server, name=b"trainer"):
        self.server, self.name, self.sequence = server, name, 0
        self.session = time.time_ns() // 1000

    def number(self, sequence):
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        return MESSAGES["pserver.v1.RequestId"](
            client_id=self.name, session=self.session, sequence=sequence)

    def call(self, method, kind, sequence, timeout=30, **fields):
        request = MESSAGES[f"pserver.v1.{kind}"](request=self.number(sequence), **fields)
        return self.server.calls.call(method, request, timeout)

    def define(self, name, values, config=b"", sequence=None, **fields):
        content = struct.pack(f"<{len(values)}f", *values)
        fields = {"content": content, "element_type": FLOAT32, **fields}
        reply = self.call("DefineParam", "InitParamRequest", sequence, name=name, config=config,
                          **fields)
        return MESSAGES["pserver.v1.InitParamResponse"].FromString(reply)

    def drop(self, name, sequence=None):
        reply = self.call("DropParam", "DropParamRequest", sequence, name=name)
        return MESSAGES["pserver.v1.ChangeParamResponse"].FromString(reply)

    def configure(self, name, change, sequence=None):
        reply = self.call("ConfigureParam", "ConfigureParamRequest", sequence, name=name,
                          change=change)
        return MESSAGES["pserver.v1.ChangeParamResponse"].FromString(reply)

    def push(self, name, values, sequence=None):
        reply = self.call("SendGrad", "SendGradRequest", sequence, name=name,
                          element_type=FLOAT32, content=struct.pack(f"<{len(values)}f", *values))
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)


class DefineParam(unittest.TestCase):
    def start(self, *options, **named):
        self.server = Server(*options, **named)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.trainer = Trainer(self.server)

    def restart(self):
        self.server.process.kill()
        self.server.start()

    def pull(self, name):
        return self.server.calls.pull(name)

    def refused(self, code, call, *arguments, **named):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def test_a_parameter_that_was_defined_is_there_after_kill_9(self):
        self.start()
        reply = self.trainer.define("late", [1.0, 2.0, 3.0, 4.0], rate(0.5), shape=[2, 2])
        self.assertGreater(reply.epoch, 0)
        self.assertFalse(reply.existed)
        self.trainer.push("late", [1.0, 1.0, 1.0, 1.0])
        self.restart()
        self.assertEqual(self.pull("late"), ([0.5, 1.5, 2.5, 3.5], 1))
        # The same request once more: it was done, and is not done again.
        reply = self.trainer.define("late", [1.0, 2.0, 3.0, 4.0], rate(0.5), sequence=1,
                                    shape=[2, 2])
        self.assertFalse(reply.existed)
        self.assertEqual(self.pull("late"), ([0.5, 1.5, 2.5, 3.5], 1))
        self.assertTrue(self.trainer.push("late", [1.0] * 4, sequence=2).duplicate)

    def test_of_an_equal_definition_nothing_changes_and_another_is_told_what_differs(self):
        self.start()
        self.trainer.define("late", [1.0, 2.0], rate(0.5))
        self.trainer.push("late", [1.0, 1.0])
        other = Trainer(self.server, b"other")
        self.assertTrue(other.define("late", [7.0, 7.0], rate(0.5)).existed)
        self.assertEqual(self.pull("late"), ([0.5, 1.5], 1))
        exists = grpc.StatusCode.ALREADY_EXISTS
        self.assertIn("shape", self.refused(exists, other.define, "late", [1.0], rate(0.5)))
        self.assertIn("lr=0.5 and not 0.25",
                      self.refused(exists, other.define, "late", [1.0, 2.0], rate(0.25)))
        self.assertIn("f32", self.refused(exists, other.define, "late", [1.0, 2.0], rate(0.5),
                                          element_type=0))
        # What it was defined with and what it was configured to are both its configuration.
        self.trainer.configure("late", rate(0.25))
        self.assertTrue(other.define("late", [1.0, 2.0], rate(0.5)).existed)
        self.assertTrue(other.define("late", [1.0, 2.0], rate(0.25)).existed)
        for _ in range(2):  # by the journal, then by a checkpoint
            self.restart()
            self.assertTrue(other.define("late", [1.0, 2.0], rate(0.5)).existed)
            self.assertTrue(other.define("late", [1.0, 2.0], rate(0.25)).existed)
            done = self.server.psctl("checkpoint")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_definition_waits_for_the_end_of_the_initialisation(self):
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.trainer = Trainer(self.server)
        self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, self.trainer.call, "DefineParam",
                     "InitParamRequest", None, timeout=0.3, name="late", element_type=FLOAT32,
                     content=b"\0" * 4)
        done = []
        waiting = threading.Thread(target=lambda: done.append(self.trainer.define("l", [1.0])))
        waiting.start()
        self.server.make_ready()
        waiting.join()
        self.assertEqual(self.pull("l"), ([1.0], 0))

    def test_a_parameter_that_was_dropped_is_gone_after_kill_9(self):
        self.start()
        self.trainer.define("late", [1.0, 2.0])
        self.trainer.push("late", [1.0, 1.0])
        reply = self.trainer.drop("late")
        self.assertEqual(reply.version, 1)
        missing = grpc.StatusCode.NOT_FOUND
        for _ in range(2):
            self.refused(missing, self.pull, "late")
            self.refused(missing, self.trainer.push, "late", [1.0, 1.0])
            self.refused(missing, Trainer(self.server, b"other").drop, "late")
            again = self.trainer.drop("late", sequence=3)
            self.assertTrue(again.duplicate)
            self.assertEqual(again.position, reply.position)
            self.restart()
        self.trainer.define("late", [5.0])
        self.restart()
        self.assertEqual(self.pull("late"), ([5.0], 0))

    def test_a_configuration_holds_from_the_next_push_on_and_after_kill_9(self):
        self.start()
        self.trainer.define("late", [1.0], rate(1.0))
        self.trainer.push("late", [0.125])
        reply = self.trainer.configure("late", rate(0.5))
        self.assertEqual((reply.version, reply.step), (1, 1))
        config = CONFIG.FromString(reply.config)
        self.assertEqual(config.const_lr.learning_rate, 0.5)
        self.trainer.push("late", [0.5])
        self.assertEqual(self.pull("late"), ([0.625], 2))
        self.restart()
        self.assertEqual(self.pull("late"), ([0.625], 2))
        self.trainer.push("late", [0.25])
        self.assertEqual(self.pull("late"), ([0.5], 3))
        self.assertTrue(self.trainer.configure("late", rate(0.5), sequence=3).duplicate)
        bad = grpc.StatusCode.INVALID_ARGUMENT
        self.assertIn("rule", self.refused(bad, self.trainer.configure, "late",
                                           CONFIG(optimizer=4).SerializeToString()))
        self.refused(bad, self.trainer.configure, "late", b"")
        self.refused(bad, self.trainer.configure, "late", rate(float("nan")))
        # Without an effect on what is there.
        self.trainer.push("late", [0.5])
        self.assertEqual(self.pull("late"), ([0.25], 4))

    def test_checkpoints_have_what_was_defined_dropped_and_configured(self):
        self.start("--checkpoint-interval", "100ms")
        for number in range(24):
            name = f"p{number % 4}"
            self.trainer.define(name, [float(number)], rate(1.0))
            self.trainer.configure(name, rate(0.5))
            self.trainer.push(name, [1.0])
            if number % 8 == 7:
                self.restart()
            self.assertEqual(self.pull(name), ([number - 0.5], 1))
            self.trainer.drop(name)
        self.restart()
        for number in range(4):
            self.refused(grpc.StatusCode.NOT_FOUND, self.pull, f"p{number}")

    def test_whoever_defines_and_drops_in_a_loop_makes_nothing_grow(self):
        self.start(interval="200ms")
        rounds = 400

        def turn(count):
            for number in range(count):
                self.trainer.define(f"name{number}", [1.0] * 64)
                self.trainer.drop(f"name{number}")

        turn(rounds)
        before = self.server.rss_kib(), descriptors(self.server.pid)
        turn(rounds)
        self.assertLess(self.server.rss_kib() - before[0], 16 * 1024)
        self.assertLessEqual(descriptors(self.server.pid), before[1] + 8)

    def test_many_that_define_one_name_get_one_parameter(self):
        self.start()
        calls = [Calls(self.server.address) for _ in range(8)]
        answers = []

        def define(number):
            trainer = Trainer(type("One", (), {"calls": calls[number]}), b"c%d" % number)
            answers.append(trainer.define("shared", [float(number)]).existed)

        threads = [threading.Thread(target=define, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answers), [False] + [True] * 7)
        values = self.pull("shared")
        self.restart()
        self.assertEqual(self.pull("shared"), values)


@unittest.skipUnless(os.path.exists(SHIM), "there is no fault_shim.so")
class KilledOnTheWay(unittest.TestCase):
    """The server dies at each point of a change: instead of the write of its record, instead of the
    sync, and behind the sync, before the answer. The repeat of the request ends in the same state
    whether the change was done or not, and is done once."""

    POINTS = {"k": (False,), "m": (False, True), "a": (True,)}  # whether the change may be done

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fault = os.path.join(folder.name, "fault")
        self.set_fault("0")
        self.server = Server("--ack", "logged", environment={
            "LD_PRELOAD": SHIM, "PS_FAULT_SHIM": self.fault,
            "ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.trainer = Trainer(self.server)

    def set_fault(self, letter):
        """Written in place: the server has the file mapped."""
        with open(self.fault, "r+b" if os.path.exists(self.fault) else "wb") as file:
            file.write(letter.encode())

    def die_in(self, point, call):
        self.set_fault(point)
        with self.assertRaises(grpc.RpcError):
            call()
        self.assertEqual(self.server.process.child.wait(PATIENCE), -signal.SIGKILL)
        self.restart()

    def restart(self):
        """Until the server has recovered: a sync of its recovery would be taken for that of the
        record of the next change."""
        self.set_fault("0")
        self.server.process.kill()
        self.server.start()
        self.values("w")

    def values(self, name):
        """None: the parameter is not there."""
        try:
            return self.server.calls.pull(name)
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
            return None

    def at_each_point(self, check):
        for point, outcomes in self.POINTS.items():
            with self.subTest(point=point):
                check(point, outcomes, f"late-{point}")

    def test_a_definition(self):
        self.at_each_point(self.check_definition)

    def check_definition(self, point, outcomes, name):
        def define(sequence=None):
            return self.trainer.define(name, [8.0, 4.0], rate(0.5), sequence)
        self.die_in(point, define)
        self.assertIn(self.values(name) is not None, outcomes)
        self.assertFalse(define(self.trainer.sequence).existed)
        self.trainer.push(name, [2.0, 2.0])
        self.assertFalse(define(self.trainer.sequence - 1).existed)
        for _ in range(2):
            self.assertEqual(self.values(name), ([7.0, 3.0], 1))
            self.restart()

    def test_a_configuration(self):
        self.at_each_point(self.check_configuration)

    def check_configuration(self, point, outcomes, name):
        self.trainer.define(name, [8.0], rate(1.0))
        self.trainer.push(name, [1.0])
        self.die_in(point, lambda: self.trainer.configure(name, rate(0.5)))
        reply = self.trainer.configure(name, rate(0.5), self.trainer.sequence)
        self.assertIn(reply.duplicate, outcomes)
        self.trainer.push(name, [2.0])
        for _ in range(2):
            self.assertEqual(self.values(name), ([6.0], 2))
            self.restart()

    def test_a_drop(self):
        self.at_each_point(self.check_drop)

    def check_drop(self, point, outcomes, name):
        self.trainer.define(name, [8.0], rate(1.0))
        self.trainer.push(name, [1.0])
        self.die_in(point, lambda: self.trainer.drop(name))
        self.assertIn(self.values(name) is None, outcomes)
        reply = self.trainer.drop(name, self.trainer.sequence)
        self.assertIn(reply.duplicate, outcomes)
        self.trainer.define(name, [3.0], rate(1.0))
        self.assertTrue(self.trainer.drop(name, self.trainer.sequence - 1).duplicate)
        for _ in range(2):
            self.assertEqual(self.values(name), ([3.0], 0))
            self.restart()


if __name__ == "__main__":
    unittest.main(verbosity=2)
