# SPDX-License-Identifier: Apache-2.0
"""Training in rounds (docs/rounds.md): one step of all workers' gradients, whenever they come; each
counts once through kill -9 at every point; whoever is missing costs one grace time."""

import itertools
import json
import os
import random
import signal
import struct
import tempfile
import unittest

import grpc

from blackbox import Server
from calls import FLOAT32, MESSAGES
from cluster import PATIENCE
from test_define_param import SHIM, Trainer, rate

HOUR = 3600
COMBINE = {"average": 0, "sum": 1, "weighted": 2}


def rounds(workers, quorum=0, grace_ms=0, combine="average", late=0):
    fields = {"workers": workers, "quorum": quorum, "grace_ms": grace_ms, "late": late,
              "combine": COMBINE[combine]}
    return rate(1.0, rounds=fields)


def bits(values):
    return struct.pack(f"<{len(values)}f", *values)


class Worker(Trainer):
    """A trainer with a rank."""

    def __init__(self, server, rank):
        super().__init__(server, b"worker-%d" % rank)
        self.rank = rank

    def contribution(self, values, round_=0, weight=0.0, name="m"):
        return MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32, content=bits(values), worker=1 + self.rank,
            round=round_, weight=weight)

    def contribute(self, values, round_=0, weight=0.0, sequence=None, name="m"):
        request = self.contribution(values, round_, weight, name)
        request.request.CopyFrom(self.number(sequence))
        reply = self.server.calls.call("SendGrad", request)
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)

    def step(self, values, version, sequence=None):
        """Contributes and waits for the version, in one message; a future."""
        request = MESSAGES["pserver.v1.PushPullRequest"](request=self.number(sequence))
        request.grads.append(self.contribution(values, version))
        request.params.add(name="m", at_least_version=version)
        path = "/pserver.v1.ParameterServer/PushPull"
        return self.server.calls.channel.unary_unary(path).future(request.SerializeToString(),
                                                                  timeout=HOUR)


class Base(unittest.TestCase):
    def start(self, *flags, **named):
        self.server = Server(*flags, **named)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.owner = Trainer(self.server, b"owner")

    def define(self, values, config, workers):
        self.owner.define("m", values, config)
        self.workers = [Worker(self.server, rank) for rank in range(workers)]

    def restart(self):
        self.server.process.kill()
        self.server.start()

    def values(self, at_least=0):
        request = MESSAGES["pserver.v1.GetParamRequest"](name="m", at_least_version=at_least)
        reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(
            self.server.calls.call("GetParam", request))
        return list(struct.unpack(f"<{len(reply.content) // 4}f", reply.content)), reply.version

    def refused(self, code, call, *arguments, **named):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def end_by_grace(self, version, workers, combine="average"):
        """These contribute, and the others are evicted: their time begins when all of these are
        there, however slow the machine is."""
        self.owner.configure("m", rounds(workers, combine=combine))
        for worker in self.workers[:-1]:
            self.assertTrue(worker.contribute([-1.0], version).held)
        self.owner.configure("m", rounds(workers, grace_ms=1, combine=combine))
        self.assertEqual(self.values(version)[1], version)
        self.owner.configure("m", rounds(workers, combine=combine))


class Rounds(Base):
    def test_one_step_is_made_of_all_contributions(self):
        self.start()
        self.define([10.0, 10.0], rounds(3), 3)
        replies = [worker.contribute([3.0 * rank, 3.0])
                   for rank, worker in enumerate(self.workers)]
        self.assertEqual([reply.held for reply in replies], [True, True, False])
        self.assertEqual([reply.version for reply in replies], [1, 1, 1])
        self.assertEqual(self.values(), ([7.0, 7.0], 1))

    def test_the_bits_do_not_depend_on_who_comes_first(self):
        self.start()
        chance = random.Random(17)
        gradients = [[chance.uniform(-1, 1) * 10 ** chance.randint(-6, 6) for _ in range(50)]
                     for _ in range(4)]
        for combine in COMBINE:
            seen = set()
            for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
                self.define([1.0] * 50, rounds(4, combine=combine), 4)
                for rank in order:
                    self.workers[rank].contribute(gradients[rank], weight=1.0 + rank)
                seen.add(bits(self.values()[0]))
                self.owner.drop("m")
            self.assertEqual(len(seen), 1, combine)

    def test_weights_and_sums(self):
        self.start()
        self.define([0.0], rounds(2, combine="weighted"), 2)
        self.workers[1].contribute([-8.0], weight=3.0)
        self.workers[0].contribute([-4.0])  # no weight is 1
        self.assertEqual(self.values(), ([7.0], 1))
        self.owner.configure("m", rounds(2, combine="sum"))
        for worker in self.workers:
            worker.contribute([-1.0], weight=5.0)
        self.assertEqual(self.values(), ([9.0], 2))

    def test_one_message_is_one_synchronous_step(self):
        self.start()
        self.define([0.0], rounds(4), 4)
        for version in range(1, 6):
            calls = [worker.step([-1.0], version) for worker in self.workers]
            for call in calls:
                reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
                self.assertEqual(reply.grads[0].reply.version, version)
                self.assertEqual(reply.params[0].reply.version, version)
                self.assertEqual(reply.params[0].reply.content, bits([float(version)]))

    def test_what_is_held_is_shown_also_after_a_restart_and_a_drop(self):
        self.start("--ack", "logged", http=True)
        self.define([0.0, 0.0], rounds(2), 2)
        for round_ in (1, 2):
            for worker in self.workers:
                worker.contribute([1.0, 2.0], round_)
        self.workers[0].contribute([1.0, 2.0], 3)
        shown = "\nps_round_held_bytes 8\n"
        self.assertIn(shown, self.server.get("/metrics")[1])
        self.restart()
        self.assertIn(shown, self.server.get("/metrics")[1])
        self.owner.drop("m")
        self.assertIn("\nps_round_held_bytes 0\n", self.server.get("/metrics")[1])

    def test_what_cannot_be_is_refused_and_changes_nothing(self):
        self.start()
        self.define([0.0], rounds(2), 2)
        first, second = self.workers
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.assertIn("trained in rounds: say worker", self.refused(
            invalid, self.owner.push, "m", [1.0]))
        self.assertIn("of 2 workers", self.refused(
            invalid, Worker(self.server, 2).contribute, [1.0]))
        self.assertIn("request id", self.refused(
            invalid, self.server.calls.call, "SendGrad", first.contribution([1.0])))
        self.assertIn("finite", self.refused(invalid, first.contribute, [float("nan")]))
        self.refused(invalid, first.contribute, [1.0, 2.0])
        self.assertIn("round 1 is open", self.refused(
            grpc.StatusCode.FAILED_PRECONDITION, first.contribute, [1.0], 2))
        first.contribute([1.0])
        self.assertIn("already", self.refused(
            grpc.StatusCode.ALREADY_EXISTS, first.contribute, [1.0]))
        self.assertIn("round 1 is open", self.refused(
            grpc.StatusCode.FAILED_PRECONDITION, self.owner.configure, "m", rounds(3)))
        second.contribute([3.0])
        self.assertEqual(self.values(), ([-2.0], 1))
        self.refused(invalid, self.owner.define, "whole", [1.0], rounds(2), element_type=0)

    def test_a_sum_that_overflows_skips_the_step_and_not_the_version(self):
        self.start()
        self.define([1.0], rounds(2, combine="sum"), 2)
        for worker in self.workers:
            worker.contribute([3e38])
        self.assertEqual(self.values(), ([1.0], 1))
        self.restart()
        self.assertEqual(self.values(), ([1.0], 1))

    def test_a_quorum_ends_a_round_and_the_late_one_is_told(self):
        for late in (0, 1):
            with self.subTest(late=late):
                self.start()
                self.define([0.0], rounds(3, quorum=2, combine="sum", late=late), 3)
                for worker in self.workers[:2]:
                    worker.contribute([-1.0], 1)
                reply = self.workers[2].contribute([-8.0], 1)
                self.assertTrue(reply.late)
                self.assertEqual((reply.version, reply.held), (2, True) if late else (1, False))
                reply = self.workers[0].contribute([-1.0], 2)
                self.assertEqual(reply.held, not late)
                self.assertEqual(self.values(), ([11.0], 2) if late else ([2.0], 1))

    def test_whoever_waits_hears_who_is_missing(self):
        self.start()
        self.define([0.0], rounds(4), 4)
        self.workers[2].contribute([1.0])
        request = MESSAGES["pserver.v1.GetParamRequest"](name="m", at_least_version=1)
        details = self.refused(grpc.StatusCode.DEADLINE_EXCEEDED, self.server.calls.call,
                               "GetParam", request, 2)
        self.assertIn("round 1 has 1 of 4 contributions, missing: 0 1 3", details)

    def test_an_operator_sees_for_whom_the_open_round_waits(self):
        self.start()
        self.define([0.0], rounds(4), 4)
        self.workers[2].contribute([1.0])
        self.workers[0].contribute([1.0])
        shown = self.server.psctl("show", "m").stdout
        self.assertIn("round 1: 2 of 4 have contributed; missing: 1 3", shown)
        rows = json.loads(self.server.psctl("show", "m", "--output", "json").stdout)
        self.assertEqual(rows[0]["round"], {"version": 1, "workers": 4, "contributed": 2,
                                            "missing": "1 3"})
        status = json.loads(self.server.psctl("status", "--output", "json").stdout)
        self.assertEqual(status[0]["placement"], 1)

    def test_whoever_is_missing_costs_one_grace_time_and_may_come_back(self):
        self.start()
        self.define([0.0], rounds(3), 3)
        self.end_by_grace(1, 3)
        told = self.server.process.wait_event("workers are not waited for any more")
        self.assertEqual((told["parameter"], told["round"], told["missing"]), ("m", 1, " 2"))
        # The second round needs no time: nobody waits for the third worker any more.
        calls = [worker.step([-1.0], 2) for worker in self.workers[:2]]
        for call in calls:
            call.result(PATIENCE)
        self.assertEqual(self.values(), ([2.0], 2))
        for rank in (2, 0):
            self.assertTrue(self.workers[rank].contribute([-1.0], 3).held)
        self.restart()
        self.assertFalse(self.workers[1].contribute([-1.0], 3).held)
        self.assertEqual(self.values(), ([3.0], 3))

    def test_contributions_come_in_ranges_and_encodings(self):
        self.start()
        count = 32768  # two ranges of the least size
        self.define([0.0] * count, rounds(2, combine="sum"), 2)
        first, second = self.workers
        for part in range(2):
            request = first.contribution([-1.0] * (count // 2))
            request.offset, request.count = count // 2 * part, count // 2
            request.request.CopyFrom(first.number(1))
            self.server.calls.call("SendGrad", request)
        request = second.contribution([])
        request.content, request.encoding = b"\x80\xbf" * count, 3
        request.request.CopyFrom(second.number(1))
        self.server.calls.call("SendGrad", request)
        self.assertEqual(self.values(), ([2.0] * count, 1))
        self.restart()
        self.assertEqual(self.values(), ([2.0] * count, 1))


    def test_large_contributions_are_added_by_many_threads(self):
        self.start()
        count = 3_000_001  # more than a lane does alone, and no whole block at the end
        self.define([0.0] * count, rounds(2, combine="sum"), 2)
        for rank, worker in enumerate(self.workers):
            worker.contribute([-1.0 - rank] * count)
        for first in (0, count - 5):
            request = MESSAGES["pserver.v1.GetParamRequest"](name="m", offset=first, count=5)
            reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(
                self.server.calls.call("GetParam", request))
            self.assertEqual(reply.content, bits([3.0] * 5))


class Survives(Base):
    def test_a_checkpoint_in_the_middle_of_a_round_has_what_is_held(self):
        for flags in (), ("--no-journal", "--ack", "memory"):
            with self.subTest(flags=flags):
                self.start(*flags)
                self.define([0.0], rounds(3), 3)
                self.end_by_grace(1, 3, "sum")
                for worker in self.workers[:2]:
                    worker.contribute([-1.0], 2)
                self.assertTrue(self.workers[0].contribute([-1.0], 3).held)
                done = self.server.psctl("checkpoint")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.restart()
                reply = self.workers[0].contribute([-1.0], 3, sequence=3)
                self.assertTrue(reply.duplicate and reply.held)
                # The third worker is evicted still.
                self.assertFalse(self.workers[1].contribute([-1.0], 3).held)
                self.assertEqual(self.values(), ([6.0], 3))

    def test_what_was_held_counts_after_kill_9_once_and_in_the_order_of_ranks(self):
        self.start()
        gradients = [[1e8], [-1e8], [1.0]]
        self.define([0.0], rounds(3, combine="sum"), 3)
        self.workers[2].contribute(gradients[2])
        self.restart()
        self.workers[1].contribute(gradients[1])
        self.restart()
        for rank in (2, 1):
            reply = self.workers[rank].contribute(gradients[rank], sequence=1)
            self.assertEqual((reply.duplicate, reply.held, reply.version), (True, True, 1))
        self.assertEqual(self.values(), ([0.0], 0))
        self.workers[0].contribute(gradients[0])
        self.assertEqual(self.values(), ([-1.0], 1))
        for _ in range(2):
            self.restart()
            self.assertEqual(self.values(1), ([-1.0], 1))
            for rank, worker in enumerate(self.workers):
                reply = worker.contribute(gradients[rank], sequence=1)
                self.assertEqual((reply.duplicate, reply.held, reply.version), (True, False, 1))

    def test_steps_that_wait_are_cut_off_and_repeated(self):
        self.start()
        self.define([0.0], rounds(2, combine="sum"), 2)
        for version in (1, 2, 3):
            cut = self.workers[0].step([-1.0], version)
            self.workers[0].contribute([-1.0], version, sequence=self.workers[0].sequence)
            self.restart()
            self.assertIsNotNone(cut.exception(PATIENCE))
            calls = [self.workers[0].step([-1.0], version, self.workers[0].sequence),
                     self.workers[1].step([-1.0], version)]
            for call in calls:
                reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
                self.assertEqual(reply.params[0].reply.content, bits([2.0 * version]))

    def test_an_eviction_is_remembered(self):
        self.start()
        self.define([0.0], rounds(2, grace_ms=1), 2)
        self.workers[0].step([-1.0], 1).result(PATIENCE)
        self.owner.configure("m", rounds(2))
        self.restart()
        self.assertFalse(self.workers[0].contribute([-1.0], 2).held)
        self.assertEqual(self.values(), ([2.0], 2))

    def test_a_dropped_parameter_takes_its_round_along(self):
        self.start()
        self.define([0.0], rounds(2), 2)
        self.workers[0].contribute([-1.0])
        self.owner.drop("m")
        self.owner.define("m", [5.0], rounds(2))
        self.restart()
        for worker in self.workers:
            worker.contribute([-1.0])
        self.assertEqual(self.values(), ([6.0], 1))


@unittest.skipUnless(os.path.exists(SHIM), "there is no fault_shim.so")
class KilledOnTheWay(Base):
    """The server dies at each point of a contribution: instead of the write of its record, instead
    of the sync, and behind the sync, before the answer. Of the last of a round so, too."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fault = os.path.join(folder.name, "fault")
        self.set_fault("0")
        self.start("--ack", "logged", environment={
            "LD_PRELOAD": SHIM, "PS_FAULT_SHIM": self.fault,
            "ASAN_OPTIONS": "verify_asan_link_order=0"})

    def set_fault(self, letter):
        """Written in place: the server has the file mapped."""
        with open(self.fault, "r+b" if os.path.exists(self.fault) else "wb") as file:
            file.write(letter.encode())

    def die_in(self, point, call):
        self.set_fault(point)
        with self.assertRaises(grpc.RpcError):
            call()
        self.assertEqual(self.server.process.child.wait(PATIENCE), -signal.SIGKILL)
        self.set_fault("0")
        self.server.start()
        self.server.calls.pull("w")

    def test_a_contribution_and_the_last_of_a_round(self):
        for version, (point, rank) in enumerate(itertools.product("kma", (0, 1)), 1):
            with self.subTest(point=point, rank=rank):
                if version == 1:
                    self.define([0.0], rounds(2, combine="sum"), 2)
                if rank == 1:
                    self.assertTrue(self.workers[0].contribute([-1.0], version).held)
                worker = self.workers[rank]
                self.die_in(point, lambda w=worker, v=version: w.contribute([-1.0], v))
                reply = worker.contribute([-1.0], version, sequence=worker.sequence)
                self.assertEqual(reply.version, version)
                if rank == 0:
                    self.workers[1].contribute([-1.0], version)
                self.assertEqual(self.values(version), ([2.0 * version], version))


if __name__ == "__main__":
    unittest.main()
