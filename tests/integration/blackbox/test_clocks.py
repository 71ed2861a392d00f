# SPDX-License-Identifier: Apache-2.0
"""Clocks by the wire: reads that wait for slower workers, who is evicted and comes back, and what
of it is there after kill -9."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

import grpc

from blackbox import Server, late_failure
from calls import FLOAT32, MESSAGES
from cluster import BIN, PATIENCE, wait_until

SHIM = os.path.join(BIN, "..", "tests", "fault_shim.so")  # tests/chaos/fault_shim.c
BENCH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench",
                     "bench_stragglers.py")
HOUR = 3600  # the longest wait that there is: whoever waits for it is not there in time
ASP, SSP, BSP = 0, 1, 2
EVICT = 1
PULL = MESSAGES["pserver.v1.GetParamRequest"]


class Workers:
    """Everybody who trains, by the wire: an id, and a number for each request."""

    def __init__(self, server, name="c", client=b"workers"):
        self.server, self.name, self.client, self.sequence = server, name, client, 0
        self.session = time.time_ns() // 1000

    def number(self, sequence):
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        return MESSAGES["pserver.v1.RequestId"](client_id=self.client, session=self.session,
                                                sequence=sequence)

    def set(self, workers, consistency=SSP, staleness=0, sequence=None, **settings):
        request = MESSAGES["pserver.v1.SetClocksRequest"](
            name=self.name, workers=workers, consistency=consistency, staleness=staleness,
            request=self.number(sequence), **settings)
        return MESSAGES["pserver.v1.ClocksResponse"].FromString(
            self.server.calls.call("SetClocks", request))

    def remove(self, sequence=None, **fields):
        request = MESSAGES["pserver.v1.SetClocksRequest"](
            name=self.name, remove=True, request=self.number(sequence), **fields)
        return MESSAGES["pserver.v1.ClocksResponse"].FromString(
            self.server.calls.call("SetClocks", request))

    def clock(self, rank, clock, sequence=None):
        request = MESSAGES["pserver.v1.ClockRequest"](
            name=self.name, worker=1 + rank, clock=clock, request=self.number(sequence))
        return MESSAGES["pserver.v1.ClocksResponse"].FromString(
            self.server.calls.call("Clock", request))

    def progress(self, **fields):
        request = MESSAGES["pserver.v1.ProgressRequest"](name=self.name, **fields)
        return MESSAGES["pserver.v1.ProgressResponse"].FromString(
            self.server.calls.call("Progress", request))

    def clocks(self):
        return [worker.clock for worker in self.progress().workers]

    def read(self, rank, clock, timeout=HOUR):
        """A pull of that worker, on its way."""
        request = PULL(name="w", worker=1 + rank, clock=clock, clocks=self.name)
        return self.server.calls.channel.unary_unary("/pserver.v1.ParameterServer/GetParam").future(
            request.SerializeToString(), timeout=timeout)


class ClocksTest(unittest.TestCase):
    def start(self, *flags):
        self.server = Server(*flags, http=True)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.workers = Workers(self.server)

    def restart(self):
        self.server.process.kill()
        self.server.start()
        self.workers = Workers(self.server)

    def metric(self, name):
        for line in self.server.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return int(float(line.split()[-1]))
        return 0

    def until_parked(self, count):
        wait_until(lambda: self.metric("ps_rpc_parked_calls") == count, f"{count} calls wait")

    def fails(self, code, call):
        with self.assertRaises(grpc.RpcError) as failure:
            call()
        self.assertEqual(failure.exception.code(), code)
        return failure.exception.details()


class Reads(ClocksTest):
    def test_a_task_that_would_begin_at_a_negative_clock_is_refused(self):
        """As -1 comes from a language that knows signed numbers alone."""
        self.start()
        text = self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                          lambda: self.workers.set(2, SSP, task=1, clock=2 ** 64 - 1))
        self.assertIn("is that a negative number?", text)
        self.workers.set(2, SSP, task=1, clock=2 ** 63 - 1)
        self.assertEqual(self.workers.clocks(), [2 ** 63 - 1] * 2)

    def test_a_read_waits_until_the_slowest_is_near_enough(self):
        self.start()
        self.workers.set(2, SSP, staleness=1)
        self.workers.clock(0, 1)
        self.assertEqual(self.workers.read(0, 1).exception(PATIENCE), None)
        self.workers.clock(0, 2)
        waiting = [self.workers.read(0, 2) for _ in range(3)]
        self.until_parked(3)
        self.assertEqual(self.workers.clock(1, 1).minimum, 1)
        for call in waiting:
            call.result(PATIENCE)
        self.assertEqual(self.metric("ps_clock_wait_seconds_count"), 1)

    def test_the_models_differ_in_whom_they_wait_for(self):
        self.start()
        calls = []  # that wait: a future that is forgotten is cancelled
        for name, consistency, staleness, parked in ("asp", ASP, 0, 0), ("ssp", SSP, 3, 0), \
                                                    ("tight", SSP, 2, 1), ("bsp", BSP, 9, 2):
            self.workers.name = name
            self.workers.set(2, consistency, staleness)
            self.workers.clock(0, 3)
            calls.append(self.workers.read(0, 3))
            if name in ("asp", "ssp"):
                calls.pop().result(PATIENCE)
            self.until_parked(parked)

    def test_a_batch_and_a_push_pull_wait_as_well(self):
        self.start()
        self.workers.set(2, BSP)
        self.workers.clock(0, 1)
        batch = MESSAGES["pserver.v1.PushPullRequest"]()
        batch.grads.add(name="w", element_type=FLOAT32, content=struct.pack("<4f", *[-1.0] * 4))
        batch.params.add(name="w", worker=1, clock=1, clocks="c")
        call = self.server.calls.channel.unary_unary("/pserver.v1.ParameterServer/PushPull").future(
            batch.SerializeToString(), timeout=HOUR)
        self.until_parked(1)
        self.workers.clock(1, 1)
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
        self.assertEqual(reply.params[0].reply.version, reply.grads[0].reply.version)

    def test_who_waits_too_long_hears_for_whom(self):
        self.start()
        self.workers.set(2, SSP)
        self.workers.clock(1, 5)
        failure = late_failure(lambda timeout: self.workers.read(1, 5, timeout))
        self.assertEqual(failure.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertRegex(failure.details(),
                         r"^clocks c: worker 1 reads at clock 5 and waits until all have ended 5 "
                         r"iterations: worker 0 has ended 0, and is silent for \d+\.\d s$")

    def test_progress_waits_for_a_minimum(self):
        self.start()
        self.workers.set(2, SSP, staleness=4)
        self.workers.clock(0, 7)
        # Nobody comes: then the answer says how far they are.
        self.assertEqual(self.workers.progress(at_least=1, wait_ms=50).minimum, 0)
        request = MESSAGES["pserver.v1.ProgressRequest"](name="c", at_least=2, wait_ms=HOUR * 1000)
        call = self.server.calls.channel.unary_unary("/pserver.v1.ParameterServer/Progress").future(
            request.SerializeToString(), timeout=HOUR)
        self.until_parked(1)
        self.workers.clock(1, 2)
        reply = MESSAGES["pserver.v1.ProgressResponse"].FromString(call.result(PATIENCE))
        self.assertEqual((reply.minimum, reply.consistency, reply.staleness), (2, SSP, 4))
        self.assertEqual([worker.clock for worker in reply.workers], [7, 2])
        self.workers.name = ""
        self.assertEqual(list(self.workers.progress().names), ["c"])


class Operators(ClocksTest):
    def test_psctl_shows_who_holds_the_minimum(self):
        self.start()
        self.workers.set(2, SSP, staleness=3)
        self.workers.clock(1, 4)
        table = self.server.psctl("clocks", "c")
        self.assertEqual(table.returncode, 0, table.stderr)
        lines = table.stdout.splitlines()
        self.assertRegex(lines[1], r"^0 +- +0 +ssp staleness 3, stragglers: wait, 0 evicted")
        self.assertRegex(lines[2], r"^0 +0 +0 +0 +\d+\.\ds  holds the minimum$")
        self.assertRegex(lines[3], r"^0 +1 +4 +4 +\d+\.\ds  $")
        [row] = json.loads(self.server.psctl("clocks", "c", "--output", "json").stdout)
        self.assertEqual((row["minimum"], row["consistency"], row["staleness"]), (0, "ssp", 3))
        self.assertEqual([(worker["clock"], worker["holds_minimum"]) for worker in row["workers"]],
                         [(0, True), (4, False)])
        names = self.server.psctl("clocks", "*", "--output", "json")
        self.assertEqual(json.loads(names.stdout), [{"index": 0, "clocks": ["c"]}])
        missing = self.server.psctl("clocks", "nope")
        self.assertEqual(missing.returncode, 65)
        self.assertIn("clocks nope are not set at this server", missing.stderr)


class Bench(unittest.TestCase):
    """The script of docs/clocks.md, for a moment."""

    def test_it_measures_each_model_and_draws_a_picture(self):
        with tempfile.NamedTemporaryFile(suffix=".svg") as picture:
            done = subprocess.run([sys.executable, BENCH, "--seconds", "0.6", "--step", "0.01",
                                   "--bins", "6", "--svg", picture.name],
                                  stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
            self.assertEqual([json.loads(line)["model"] for line in done.stdout.splitlines()],
                             ["ASP", "SSP(3)", "BSP"])
            curves = ElementTree.parse(picture.name).findall(".//{*}polyline")
            self.assertEqual(len(curves), 6)


class Refusals(ClocksTest):
    def test_what_cannot_be_is_refused_by_name(self):
        self.start()
        bad, missing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
        workers = self.workers
        self.assertIn("call SetClocks", self.fails(missing, lambda: workers.clock(0, 1)))
        self.assertIn("call SetClocks", self.fails(missing, workers.read(0, 0).result))
        self.assertIn("1 to 4096", self.fails(bad, lambda: workers.set(0)))
        self.assertIn("1 to 4096", self.fails(bad, lambda: workers.set(4097)))
        self.assertIn("ttl_ms", self.fails(bad, lambda: workers.set(2, straggler=EVICT)))
        self.fails(bad, lambda: workers.set(2, consistency=4))
        workers.set(2)
        self.assertIn("not among the 2", self.fails(missing, lambda: workers.clock(2, 1)))
        self.assertIn("1 + its rank", self.fails(bad, lambda: workers.clock(-1, 1)))
        self.assertIn("clock 1, and has ended 0 iterations", self.fails(
            grpc.StatusCode.FAILED_PRECONDITION, workers.read(0, 1).result))
        workers.name = "n" * 65
        self.fails(bad, lambda: workers.set(2))
        workers.name = ""
        self.assertIn("have a name", self.fails(bad, lambda: workers.set(2)))

    def test_there_are_so_many_clocks_and_no_more(self):
        self.start()
        for i in range(64):
            self.workers.name = f"c{i}"
            self.workers.set(1)
        self.workers.set(2)  # of the last again
        self.workers.name = "one more"
        self.assertIn("64 clocks, as many as it may: remove one (psctl drop-clocks NAME)",
                      self.fails(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: self.workers.set(1)))
        done = self.server.psctl("drop-clocks", "c17", "--yes")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "no server has clocks c17 any more\n"), done.stderr)
        self.assertEqual(self.metric("ps_clocks"), 63)
        self.workers.set(1)
        self.workers.name = ""
        names = self.workers.progress().names
        self.assertEqual((len(names), "c17" in names, "one more" in names), (64, False, True))


class Survive(ClocksTest):
    def test_what_was_answered_is_there_after_kill_9(self):
        self.start("--ack", "logged")
        self.workers.set(3, SSP, staleness=2)
        self.workers.clock(0, 5)
        self.workers.clock(1, 3)
        self.workers.clock(0, 4)  # less than was said before
        self.restart()
        self.assertEqual(self.workers.clocks(), [5, 3, 0])
        reply = self.workers.progress()
        self.assertEqual((reply.minimum, reply.consistency, reply.staleness), (0, SSP, 2))
        waiting = self.workers.read(0, 5)
        self.until_parked(1)
        self.workers.clock(2, 9)
        waiting.result(PATIENCE)

    def test_a_checkpoint_has_them_also_where_there_is_no_journal(self):
        for flags in ("--ack", "logged"), ("--no-journal",):
            with self.subTest(flags=flags):
                self.start(*flags)
                self.workers.set(2, SSP, staleness=2)
                self.workers.clock(0, 2)
                done = self.server.psctl("checkpoint")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.restart()
                self.assertEqual(self.workers.clocks(), [2, 0])
                self.assertEqual(self.workers.progress().staleness, 2)

    def test_a_repeat_is_told_and_not_applied(self):
        self.start("--ack", "logged")
        self.workers.set(2)
        first = self.workers.clock(0, 2)
        said = self.workers.sequence
        self.server.process.kill()
        self.server.start()
        self.workers.clock(0, 3)
        repeat = self.workers.clock(0, 2, sequence=said)
        self.assertTrue(repeat.duplicate)
        self.assertEqual((repeat.position, repeat.clock), (first.position, 3))
        # Another request under its number is found out.
        self.fails(grpc.StatusCode.FAILED_PRECONDITION,
                   lambda: self.workers.clock(0, 7, sequence=said))

    def test_settings_that_change_keep_who_is_there(self):
        self.start("--ack", "logged")
        self.workers.set(2)
        self.workers.clock(0, 4)
        self.workers.clock(1, 3)
        self.assertEqual(self.workers.set(4).minimum, 3)
        self.assertEqual(self.workers.clocks(), [4, 3, 3, 3])
        self.workers.set(1)
        self.restart()
        self.assertEqual(self.workers.clocks(), [4])
        self.assertEqual(self.workers.set(2).minimum, 4)


class Removed(ClocksTest):
    def test_who_waits_by_them_is_told_at_once(self):
        self.start()
        self.workers.set(2)
        self.workers.clock(0, 3)
        waiting = self.workers.read(0, 3)
        request = MESSAGES["pserver.v1.ProgressRequest"](name="c", at_least=2, wait_ms=HOUR * 1000)
        progress = self.server.calls.channel.unary_unary(
            "/pserver.v1.ParameterServer/Progress").future(request.SerializeToString(),
                                                           timeout=HOUR)
        self.until_parked(2)
        other = Workers(self.server, client=b"another")
        self.assertFalse(other.remove().duplicate)
        for call in waiting, progress:
            failure = call.exception(PATIENCE)
            self.assertEqual((failure.code(), failure.details()),
                             (grpc.StatusCode.NOT_FOUND,
                              "clocks c are not set at this server: call SetClocks"))
        self.assertEqual((self.metric("ps_clocks"), self.metric("ps_clock_minimum")), (0, 0))
        # Of what is not there it is OK, so that nobody has to know who was first.
        other.remove()
        self.workers.set(2)
        self.assertEqual(self.workers.clocks(), [0, 0])

    def test_who_removes_says_nothing_else(self):
        self.start()
        self.workers.set(2)
        for field, value in {"workers": 2, "consistency": SSP, "staleness": 1, "straggler": EVICT,
                             "ttl_ms": 5, "speculation": 1, "task": 1, "clock": 1,
                             "ranks": b"\1"}.items():
            self.assertIn("says nothing else", self.fails(
                grpc.StatusCode.INVALID_ARGUMENT, lambda: self.workers.remove(**{field: value})))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.workers.set(0, ASP))
        self.assertEqual(self.workers.clocks(), [0, 0])

    def test_they_are_gone_after_kill_9_and_begin_anew(self):
        # A checkpoint that still has them, or the journal alone.
        for saves in False, True:
            with self.subTest(saves=saves):
                self.start("--ack", "logged")
                self.workers.set(3, SSP, staleness=2)
                self.workers.clock(0, 5)
                self.workers.clock(1, 3)
                self.workers.clock(2, 2)
                self.server.process.kill()
                self.server.start()
                # Nobody has moved since.
                self.assertEqual((self.metric("ps_clocks"), self.metric("ps_clock_minimum")),
                                 (1, 2))
                if saves:
                    done = self.server.psctl("checkpoint")
                    self.assertEqual(done.returncode, 0, done.stderr)
                removed = self.workers.remove()
                said = self.workers.sequence
                self.server.process.kill()
                self.server.start()
                self.fails(grpc.StatusCode.NOT_FOUND, self.workers.progress)
                self.assertEqual(self.metric("ps_clocks"), 0)
                self.workers.set(3, SSP, staleness=2)
                self.assertEqual(self.workers.clocks(), [0, 0, 0])
                # The first life's request comes once more, and removes nothing of the second's.
                repeat = self.workers.remove(sequence=said)
                self.assertEqual((repeat.duplicate, repeat.position), (True, removed.position))
                self.workers.clock(2, 1)
                self.restart()
                self.assertEqual(self.workers.clocks(), [0, 0, 1])

    def test_places_that_were_given_back_are_there_after_kill_9(self):
        # Names that any thread of the replay may have: each needs the place of the one before it.
        self.start("--ack", "logged")
        for i in range(64):
            self.workers.name = f"c{i}"
            self.workers.set(1)
        for i in range(200):
            self.workers.name = f"c{i}"
            self.workers.remove()
            self.workers.name = f"c{i + 64}"
            self.workers.set(1)
            self.workers.clock(0, i)
        self.restart()
        self.workers.name = ""
        self.assertEqual(set(self.workers.progress().names), {f"c{i}" for i in range(200, 264)})

    def test_psctl_asks_before_it_removes(self):
        self.start()
        self.workers.set(1)
        asked = self.server.psctl("drop-clocks", "c")
        self.assertEqual(asked.returncode, 64)
        self.assertIn("say --yes", asked.stderr)
        self.assertEqual(self.workers.clocks(), [0])
        done = self.server.psctl("drop-clocks", "c", "n" * 65, "--yes", "--output", "json")
        self.assertEqual(done.returncode, 65)
        self.assertEqual([(row["name"][:2], row["gone"], row["error"] == "")
                          for row in json.loads(done.stdout)],
                         [("c", True, True), ("nn", False, False)])
        self.assertEqual(json.loads(self.server.psctl("clocks", "*", "--output", "json").stdout),
                         [{"index": 0, "clocks": []}])
        self.assertIn("clocks were removed", self.server.process.log())


class KilledOnTheWay(ClocksTest):
    """The server dies instead of the write of a clock's record, instead of its sync, and behind the
    sync, before the answer. The repeat ends in the same state, and is done once."""

    POINTS = {"k": (2,), "m": (2, 3), "a": (3,)}  # the clock that the worker may have

    def set_fault(self, letter):
        """Written in place: the server has the file mapped."""
        with open(self.fault, "r+b" if os.path.exists(self.fault) else "wb") as file:
            file.write(letter.encode())

    def test_a_clock_whose_answer_is_lost_is_said_again(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fault = os.path.join(folder.name, "fault")
        self.set_fault("0")
        self.server = Server("--ack", "logged", environment={
            "LD_PRELOAD": SHIM, "PS_FAULT_SHIM": self.fault,
            "ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        for point, outcomes in self.POINTS.items():
            with self.subTest(point=point):
                self.workers = Workers(self.server, f"c-{point}")
                self.workers.set(1)
                self.workers.clock(0, 2)
                self.set_fault(point)
                with self.assertRaises(grpc.RpcError):
                    self.workers.clock(0, 3)
                self.server.process.child.wait(PATIENCE)
                said = self.workers.sequence
                self.set_fault("0")
                self.server.process.kill()
                self.server.start()
                self.assertIn(self.workers.clocks()[0], outcomes)
                self.assertEqual(self.workers.clock(0, 3, sequence=said).clock, 3)
                self.assertTrue(self.workers.clock(0, 3, sequence=said).duplicate)
                self.assertEqual(self.workers.clocks(), [3])


class Stragglers(ClocksTest):
    def test_who_is_silent_too_long_is_not_waited_for_until_it_comes_back(self):
        self.start("--ack", "logged")
        self.workers.set(2, SSP, straggler=EVICT, ttl_ms=200)
        self.workers.clock(0, 5)
        self.workers.read(0, 5).result(PATIENCE)
        evicted = [worker.evicted for worker in self.workers.progress().workers]
        self.assertEqual((evicted, self.workers.progress().minimum), ([False, True], 5))
        self.assertEqual(self.metric("ps_clock_evictions_total"), 1)
        self.restart()
        self.assertTrue(self.workers.progress().workers[1].evicted)
        # Nobody waits for what it has missed: it goes on with the others.
        back = self.workers.clock(1, 1)
        self.assertEqual((back.clock, back.minimum), (5, 5))
        self.assertFalse(self.workers.progress().workers[1].evicted)
        self.restart()
        self.assertEqual(self.workers.clocks(), [5, 5])

    def test_who_lives_is_waited_for_however_slow_it_is(self):
        self.start()
        self.workers.set(2, SSP, straggler=EVICT, ttl_ms=3_600_000)
        self.workers.clock(0, 1)
        waiting = self.workers.read(0, 1)
        self.until_parked(1)
        self.workers.clock(1, 0)  # a sign of life
        self.assertFalse(waiting.done())
        self.workers.clock(1, 1)
        waiting.result(PATIENCE)


if __name__ == "__main__":
    unittest.main()
