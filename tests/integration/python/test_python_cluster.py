# SPDX-License-Identifier: Apache-2.0
"""The Python package in a job of two shards with a real etcd: who initialises, and who moves."""

import os
import shutil
import sys
import threading
import unittest

import numpy as np
import pserver

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cluster"))

from cluster import PATIENCE, Cluster  # noqa: E402

F4 = np.float32
VALUES = {f"w{i}": np.full(8, i, F4) for i in range(6)}
ONES = {name: np.ones(8, F4) for name in VALUES}


class Job(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.servers = self.cluster.start_servers()

    def connect(self):
        return self.enterContext(pserver.connect(etcd=self.cluster.etcd_url, timeout=PATIENCE,
                                                 wait=PATIENCE))

    def test_one_of_several_trainers_is_selected(self):
        selected = []

        def train(client):
            selected.append(client.initialize(VALUES, pserver.SGD(1.0)))
            client.push(ONES)

        threads = [threading.Thread(target=train, args=(self.connect(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(selected), [False, False, True])
        client = self.connect()
        self.assertEqual({info.version for info in client.parameters().values()}, {3})
        self.assertEqual(client.shard_count, 2)

    def test_a_shard_that_moves_is_followed(self):
        self.follow(self.connect())

    def test_a_shard_that_moves_is_followed_from_one_seed(self):
        seed = self.servers[0].wait_event("listening")["address"]
        client = self.enterContext(pserver.connect(seed, timeout=PATIENCE, wait=PATIENCE))
        self.assertEqual(client.shard_count, 2)
        self.follow(client)

    def follow(self, client):
        client.initialize(VALUES, pserver.SGD(1.0))
        for step in range(20):
            if step == 5:
                self.cluster.kill_server(self.servers[1])
                self.cluster.pserver("another")
            client.push(ONES)
        pulled = client.pull()
        for name, start in VALUES.items():
            np.testing.assert_array_equal(pulled[name], start - 20)
        self.assertEqual({info.version for info in client.parameters().values()}, {20})


if __name__ == "__main__":
    if not shutil.which("etcd"):
        print("skipped: no etcd")
        sys.exit(77)
    unittest.main(verbosity=2)
