# SPDX-License-Identifier: Apache-2.0
"""A job that goes on on another number of shards, and clients that were not told: real servers, a
real etcd. Nothing that a client of before sends is applied twice, or where nobody finds it."""

import os
import signal
import struct
import types
import unittest

import grpc

from blackbox import run
from calls import FLOAT32, MESSAGES, Calls
from cluster import Cluster
from test_tables import WIDTH, Rows, configuration, pack_keys

KEYS = list(range(40))
ONE = [1.0] * WIDTH


def shard_of(key, shards):
    """docs/wire.md, partition Hash."""
    x = ((key ^ key >> 30) * 0xbf58476d1ce4e5b9) % 2**64
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) % 2**64
    return (x ^ x >> 31) * shards >> 64


class Job:
    """Servers of one job, and a client that counts `shards`."""

    def __init__(self, cluster, name, data, shards):
        cluster.data, cluster.shards = data, shards
        self.shards = shards
        self.servers = [cluster.pserver(f"{name}-{i}", "--job", name, "--index", str(i))
                        for i in range(shards)]
        addresses = [server.wait_event("listening")["address"] for server in self.servers]
        self.calls = [Calls(address) for address in addresses]
        self.sequence = 0

    def tables(self, define=None):
        tables = [Rows(types.SimpleNamespace(calls=calls), "t") for calls in self.calls]
        for table in tables if define else ():
            table.define(define)
        return tables

    def stop(self):
        for server in self.servers:
            server.signal(signal.SIGTERM)
        return [server.wait_exit() for server in self.servers]


def push_all(tables, shards, sequence):
    for shard in range(shards):
        rows = [(key, ONE) for key in KEYS if shard_of(key, shards) == shard]
        tables[shard].push(rows, sequence)


class Resharded(unittest.TestCase):
    def refused(self, code, word, call, *arguments):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(word, caught.exception.details())
        return dict(caught.exception.trailing_metadata())

    def from_two_to_three(self, cluster):
        old = Job(cluster, "old", os.path.join(cluster.folder, "old"), 2)
        for calls in old.calls:
            calls.finish()
        tables = old.tables(configuration(rate=1.0))
        for sequence in (1, 2):
            push_all(tables, 2, sequence)
        data = os.path.join(cluster.folder, "new")
        trial = self.reshard(cluster, os.path.join(cluster.folder, "trial"))
        self.assertEqual(trial.stderr.count("a server is at work there"), 2, trial.stderr)
        self.assertEqual(old.stop(), [0, 0])
        self.assertEqual(self.reshard(cluster, data).stderr, "")
        return Job(cluster, "new", data, 3)

    def reshard(self, cluster, out):
        done = run("psckpt", "reshard", os.path.join(cluster.folder, "old", "old"), "--to", "3",
                   "--job", "new", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def value(self, new, key):
        table = new.tables()[shard_of(key, 3)]
        return table.values([key])[0]

    def test_clients_of_before_are_told_and_change_nothing(self):
        with Cluster(shards=2, interval="1h") as cluster:
            new = self.from_two_to_three(cluster)
            tables = new.tables()
            for key in KEYS:
                self.assertEqual(self.value(new, key), [-2.0] * WIDTH)

            # A push that was answered by nobody before the servers stopped is sent again: under its
            # id it is refused wherever it goes, since nobody can tell.
            for shard in range(3):
                rows = [(key, ONE) for key in KEYS if shard_of(key, 3) == shard]
                told = self.refused(grpc.StatusCode.FAILED_PRECONDITION, "session",
                                    tables[shard].push, rows, 2)
                self.assertGreater(int(told["ps-session"]), 1)

            # In a session of now, and still by the arithmetic of two.
            for shard, table in enumerate(tables[:2]):
                wrong = [key for key in KEYS if shard_of(key, 2) == shard]
                self.assertTrue(any(shard_of(key, 3) != shard for key in wrong))
                request = table.request([(key, ONE) for key in wrong], 1)
                request.request.session = int(told["ps-session"])
                self.refused(grpc.StatusCode.OUT_OF_RANGE, "of 3", table.server.calls.call,
                             "SendGrad", request)
                self.refused(grpc.StatusCode.OUT_OF_RANGE, "of 3", table.pull, wrong)
                batch = MESSAGES["pserver.v1.PushPullRequest"]()
                pushed = batch.grads.add()
                pushed.MergeFrom(request)
                self.batch_is_refused(table, batch)

            for key in KEYS:
                self.assertEqual(self.value(new, key), [-2.0] * WIDTH)

    def batch_is_refused(self, table, batch):
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(
            table.server.calls.call("PushPull", batch))
        self.assertIn("of 3", reply.grads[0].status.message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
