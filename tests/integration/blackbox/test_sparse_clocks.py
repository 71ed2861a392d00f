# SPDX-License-Identifier: Apache-2.0
"""SparseSSP and tasks by the wire: reads ahead that are announcements, in both orders with the
clock that they rest on, through kill -9, and beside a worker that is gone."""

import random
import struct
import threading
import unittest

import grpc

from test_clocks import EVICT, HOUR, MESSAGES, PATIENCE, SSP, ClocksTest, Workers
from test_tables import CONFIG, Rows, configuration, pack_keys

SPARSE = 3
ONE = [1.0, 1.0, 1.0, 1.0]


def adding(config):
    config.optimizer = CONFIG.Add


class SparseTest(ClocksTest):
    def start(self, *flags, speculation=2, workers=2, **settings):
        super().start(*flags)
        self.rows = Rows(self.server, "emb")
        self.rows.define(configuration(adding))
        self.workers.set(workers, SPARSE, speculation=speculation, **settings)

    def ahead(self, rank, clock, keys):
        """A read of rows, on its way."""
        request = MESSAGES["pserver.v1.GetParamRequest"](
            name="emb", keys=pack_keys(keys), worker=1 + rank, clock=clock, clocks="c")
        return self.server.calls.channel.unary_unary(
            "/pserver.v1.ParameterServer/GetParam").future(request.SerializeToString(),
                                                           timeout=HOUR)

    def first_of(self, call):
        """The first element of each row."""
        content = MESSAGES["pserver.v1.GetParamResponse"].FromString(call.result(PATIENCE)).content
        return [struct.unpack_from("<f", content, at)[0] for at in range(0, len(content), 16)]


class Reads(SparseTest):
    def test_GetAndAdd(self):
        """Worker 0 is two ahead and reads what worker 1 does not update; a row that worker 1 has
        announced is read when it has its update."""
        self.start()
        self.ahead(1, 0, [7]).result(PATIENCE)
        own, next_own = self.ahead(1, 1, [7]), self.ahead(0, 1, [1])
        self.until_parked(2)
        self.assertEqual(self.first_of(self.ahead(0, 0, [1])), [0])
        self.rows.push([(1, ONE)])
        self.workers.clock(0, 1)
        self.assertEqual(self.first_of(next_own), [1])
        conflict = self.ahead(0, 2, [7, 1])
        self.rows.push([(1, ONE)])
        self.workers.clock(0, 2)
        self.until_parked(2)
        for iteration in 1, 2:
            self.assertFalse(conflict.done())
            self.rows.push([(7, ONE)])
            self.workers.clock(1, iteration)
        self.assertEqual(self.first_of(own), [1])
        self.assertEqual(self.first_of(conflict), [2, 2])

    def test_a_clock_and_its_announcement_come_in_either_order(self):
        self.start(speculation=1)
        for first in 0, 2:
            self.ahead(0, first, [1]).result(PATIENCE)
            self.ahead(1, first, [2]).result(PATIENCE)
            for clock in first + 1, first + 2:
                calls = [lambda: self.workers.clock(0, clock), lambda: self.ahead(0, clock, [1])]
                if first == 2:
                    calls.reverse()  # k + 1 ahead of what the server knows, while the clock comes
                done = [call() for call in calls]
                read = done[1 if first == 0 else 0]
                self.workers.clock(1, clock)
                self.ahead(1, clock, [2]).result(PATIENCE)
                read.result(PATIENCE)

    def test_what_cannot_be_announced_is_refused(self):
        self.start()
        bad, precondition = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
        self.ahead(0, 0, [1, 2]).result(PATIENCE)
        self.ahead(0, 0, [1, 2]).result(PATIENCE)
        self.assertIn("other keys at clock 0",
                      self.fails(precondition, self.ahead(0, 0, [1]).result))
        self.assertIn("at most 3 ahead", self.fails(precondition, self.ahead(0, 4, [1]).result))
        self.assertIn("has ended 0", self.fails(precondition, self.workers.read(0, 1).result))
        self.assertIn("speculation 65", self.fails(
            bad, lambda: self.workers.set(2, SPARSE, speculation=65)))
        self.assertIn("is of SPARSE_SSP", self.fails(
            bad, lambda: self.workers.set(2, SSP, speculation=1)))
        self.fails(grpc.StatusCode.NOT_FOUND, self.ahead(2, 0, [1]).result)

    def test_psctl_shows_speculation_and_task(self):
        self.start()
        self.workers.set(2, SPARSE, staleness=1, speculation=2, task=3, ranks=b"\2")
        lines = self.server.psctl("clocks", "c").stdout.splitlines()
        self.assertIn("sparse-ssp staleness 1, speculation 2, task 3, stragglers: wait", lines[1])
        self.assertIn("takes no part", lines[2])
        self.assertIn("holds the minimum", lines[3])


class Survive(SparseTest):
    def test_after_kill_9_nothing_is_read_too_early(self):
        """What was announced is forgotten: who is ahead waits as under SSP until the others have
        said again what they read."""
        self.start("--ack", "logged")
        for rank, key in (0, 1), (1, 2):
            self.ahead(rank, 0, [key]).result(PATIENCE)
        self.rows.push([(1, ONE)])
        self.workers.clock(0, 1)
        self.assertEqual(self.first_of(self.ahead(0, 1, [1])), [1])
        waiting = self.ahead(0, 2, [2])
        self.until_parked(1)
        self.restart()
        self.rows = Rows(self.server, "emb", client=b"again")
        waiting.cancel()

        blind = self.ahead(0, 1, [1])
        self.until_parked(1)
        self.assertFalse(blind.done())
        self.ahead(1, 0, [2]).result(PATIENCE)  # sent again
        self.assertEqual(self.first_of(blind), [1])
        self.workers.clock(0, 2)
        conflict = self.ahead(0, 2, [2])
        next_own = self.ahead(1, 1, [3])
        self.until_parked(2)
        self.rows.push([(2, ONE)])
        self.workers.clock(1, 1)
        self.assertEqual(self.first_of(conflict), [1])
        self.assertEqual(self.first_of(next_own), [0])

    def test_a_task_is_there_after_kill_9(self):
        self.start("--ack", "logged")
        self.workers.clock(0, 9)
        self.workers.set(3, SSP, task=4, clock=2, ranks=b"\6")
        self.workers.clock(2, 5)
        self.restart()
        reply = self.workers.progress()
        self.assertEqual((reply.task, reply.minimum), (4, 2))
        self.assertEqual([worker.absent for worker in reply.workers], [True, False, False])
        self.assertEqual(self.workers.clocks(), [0, 2, 5])
        late = MESSAGES["pserver.v1.ClockRequest"](name="c", worker=2, clock=7, task=3)
        precondition = grpc.StatusCode.FAILED_PRECONDITION
        self.fails(precondition, lambda: self.server.calls.call("Clock", late))
        self.fails(precondition, lambda: self.workers.set(2, SSP, task=3))

    def test_a_task_that_begins_lets_no_read_of_the_one_before_wait(self):
        self.start(task=1)
        self.ahead(1, 0, [1]).result(PATIENCE)
        self.workers.clock(0, 1)
        conflict, far = self.ahead(0, 1, [1]), self.ahead(0, 3, [5])
        self.until_parked(2)
        self.workers.set(2, SSP, task=2)
        for call in conflict, far:
            self.assertIn("has ended 0",
                          self.fails(grpc.StatusCode.FAILED_PRECONDITION, call.result))


class Stragglers(SparseTest):
    def test_a_worker_that_is_gone_with_its_announcements_is_not_waited_for(self):
        self.start(straggler=EVICT, ttl_ms=200)
        self.ahead(1, 0, [1]).result(PATIENCE)
        left = self.ahead(1, 1, [1])
        self.until_parked(1)
        left.cancel()  # as a connection that broke
        self.workers.clock(0, 1)
        self.assertEqual(self.first_of(self.ahead(0, 1, [1])), [0])
        self.assertTrue(self.workers.progress().workers[1].evicted)


class Storm(SparseTest):
    def test_nobody_misses_what_ssp_would_have_shown(self):
        """Four workers on six keys, each at its own pace: at clock c a row has every addition of
        the iterations before c - s, and never more than there are."""
        staleness, speculation, iterations, workers, keys = 1, 3, 30, 4, 6
        self.start(workers=workers, staleness=staleness, speculation=speculation)
        plans = [[sorted(random.Random(f"{rank} {c}").sample(range(keys), 2))
                  for c in range(iterations + speculation + 1)] for rank in range(workers)]
        wrong = []

        def work(rank):
            own = Workers(self.server)
            number = MESSAGES["pserver.v1.RequestId"]
            rows = Rows(self.server, "emb", client=f"worker {rank}".encode())
            plan = plans[rank]
            reads = [self.ahead(rank, c, plan[c]) for c in range(speculation + 1)]
            for c in range(iterations):
                values = self.first_of(reads[c])
                for key, value in zip(plan[c], values):
                    least = sum(key in plans[other][i] for other in range(workers)
                                for i in range(c if other == rank else max(0, c - staleness)))
                    if value < least:
                        wrong.append((rank, c, key, value, least))
                rows.push([(key, ONE) for key in plan[c]])
                request = MESSAGES["pserver.v1.ClockRequest"](
                    name="c", worker=1 + rank, clock=c + 1,
                    request=number(client_id=f"clock {rank}".encode(), session=own.session,
                                   sequence=c + 1))
                self.server.calls.call("Clock", request)
                reads.append(self.ahead(rank, c + speculation + 1, plan[c + speculation + 1]))
            for read in reads[iterations:]:
                read.cancel()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        totals = [sum(key in plan[c] for plan in plans for c in range(iterations))
                  for key in range(keys)]
        self.assertEqual([row[0] for row in self.rows.values(range(keys))], totals)


if __name__ == "__main__":
    unittest.main()
