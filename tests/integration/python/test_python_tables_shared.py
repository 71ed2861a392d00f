# SPDX-License-Identifier: Apache-2.0
"""Rows of a table from a client on the servers' host: large batches, whose content may go through
shared memory or in messages. Either way the rows are those of a plain model, also when a server was
killed in between and its memory with it."""

import time
import unittest

import numpy as np
import pserver
from pserver.testing import Server

F4 = np.float32
WIDTH = 64
BATCH = 5000  # 1.25 MiB of rows: several messages for each server
KEYS = 20000
PATIENCE = 120


class SharedTables(unittest.TestCase):
    def setUp(self):
        self.servers = [self.enterContext(Server("--ack=logged")) for _ in range(2)]
        self.random = np.random.default_rng(3)
        self.model = np.full((KEYS, WIDTH), 2, F4)

    def connect(self, **options):
        ps = self.enterContext(pserver.connect(
            ",".join(server.address for server in self.servers), timeout=PATIENCE, **options))
        ps.initialize({})
        return ps, ps.table("t", WIDTH, pserver.SGD(1.0), init=pserver.Constant(2.0))

    def step(self, table, both=False):
        """Whole numbers, so that sums are exact in any order; keys come more than once."""
        keys = self.random.integers(0, KEYS, BATCH, np.uint64)
        wanted = self.random.integers(0, KEYS, BATCH, np.uint64)
        gradients = self.random.integers(-3, 4, (BATCH, WIDTH)).astype(F4)
        np.subtract.at(self.model, keys.astype(np.int64), gradients)
        if both:
            rows = table.add_get(keys, gradients, get=wanted)
        else:
            table.add(keys, gradients)
            rows = table.get(wanted)
        np.testing.assert_array_equal(rows, self.model[wanted.astype(np.int64)])

    def compare(self, table):
        np.testing.assert_array_equal(table.get(np.arange(KEYS, dtype=np.uint64)), self.model)

    def share(self, ps, table):
        """Steps until both servers share memory with the client: content is in messages before."""
        deadline = time.monotonic() + PATIENCE
        while ps.counters.shared_servers < 2:
            self.assertLess(time.monotonic(), deadline)
            self.step(table)

    def test_content_goes_through_shared_memory(self):
        ps, table = self.connect()
        self.share(ps, table)
        calls, content = ps.counters.shared_calls, ps.counters.shared_bytes
        for both in (False, True, False, True):
            self.step(table, both)
        self.assertGreater(ps.counters.shared_calls, calls)
        # Most of what the four steps have pushed; the answers of pulls go the same way.
        self.assertGreater(ps.counters.shared_bytes - content, 2 * BATCH * WIDTH * 4)
        self.compare(table)

    def test_content_goes_in_messages(self):
        ps, table = self.connect(shared_memory=False)
        for both in (False, True, False, True):
            self.step(table, both)
        self.assertEqual((ps.counters.shared_servers, ps.counters.shared_calls), (0, 0))
        self.compare(table)

    def test_two_clients_one_of_each_way_share_a_table(self):
        ps, shared = self.connect()
        _, plain = self.connect(shared_memory=False)
        self.share(ps, shared)
        for both in (False, True):
            for table in (shared, plain):
                self.step(table, both)
        self.compare(shared)
        self.compare(plain)

    def test_a_server_that_was_killed_has_every_row(self):
        ps, table = self.connect()
        self.share(ps, table)
        for server in self.servers:
            self.step(table)
            server.kill()
            server.start()
            self.step(table, both=True)
        self.compare(table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
