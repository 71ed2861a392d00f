# SPDX-License-Identifier: Apache-2.0
"""Increments: a server that saves only what changed, and is killed, comes back with the same bits
as one that saves everything, by its checkpoints, its journal, and the tools."""

import glob
import json
import os
import random
import struct
import sys
import unittest

from blackbox import Server
from calls import FLOAT32, MESSAGES
from recover_world import flip, offset_of
from test_tables import WIDTH, Rows, adagrad, configuration

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "psckpt"))

from psckpt_run import digest, psckpt  # noqa: E402

KEYS = 400
TOUCHED = 15  # of them in one round


class Pair:
    """Two servers to which the same is pushed: with increments, and without."""

    def __init__(self, test, *flags):
        self.servers = []
        self.tables = []
        self.sequence = 0
        for more in (("--increments", "2"), ()):
            server = Server(*more, *flags)
            test.addCleanup(server.__exit__)
            server.make_ready()
            self.servers.append(server)
            self.tables.append([Rows(server, "rows"), Rows(server, "few", client=b"few")])
            self.tables[-1][0].define(configuration(adagrad))
            # Rows go from this one, those first to which nothing was pushed for longest.
            self.tables[-1][1].define(configuration(rows_max=KEYS // 2, full=1))

    def push(self, dice, count):
        for table in range(2):
            for first in range(0, count, 100):
                rows = [(dice.randrange(KEYS), [dice.uniform(-1, 1)] * WIDTH)
                        for _ in range(min(100, count - first))]
                for tables in self.tables:
                    tables[table].push(rows, ack=2)

    def push_dense(self, value):
        self.sequence += 1
        for server in self.servers:
            request = MESSAGES["pserver.v1.SendGradRequest"](name="w", element_type=FLOAT32, ack=2)
            request.content = struct.pack("<4f", *[value] * 4)
            request.request.client_id = b"dense"
            request.request.session = 1
            request.request.sequence = self.sequence
            server.calls.call("SendGrad", request)

    def values(self):
        return [[table.pull(list(range(KEYS)))[0] for table in tables] for tables in self.tables]

    def kill(self):
        for server in self.servers:
            server.process.kill()

    def start(self):
        for server in self.servers:
            server.start()


class Increments(unittest.TestCase):
    def save(self, server):
        done = server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def files(self, server):
        return sorted(glob.glob(os.path.join(server.data, "shard-0", "*.safetensors")))

    def base_of(self, server, path):
        base = path.split("-on-")[1].removesuffix(".safetensors")
        (whole,) = [other for other in self.files(server)
                    if other.endswith(f"-{base}.safetensors") and "-on-" not in other]
        return whole

    def kinds(self, server):
        """Of the checkpoints that the process has saved, in their order."""
        return [row["kind"] for row in server.process.events() if row["msg"] == "checkpoint saved"]

    def prepare(self):
        self.pair = Pair(self)
        self.dice = random.Random(11)
        self.pair.push(self.dice, 2000)
        self.save(self.pair.servers[0])

    def expect_same(self):
        """Both were killed: the files say the same, and so do the servers when they come back."""
        one, other = (server.data for server in self.pair.servers)
        self.assertEqual(digest(one), digest(other))
        self.pair.start()
        values = self.pair.values()
        self.assertEqual(values[0], values[1])

    def test_killed_again_and_again_it_has_what_was_acknowledged(self):
        self.prepare()
        server = self.pair.servers[0]
        for turn in range(4):
            for _ in range(turn + 2):
                self.pair.push(self.dice, TOUCHED)
                self.save(server)
            # And something behind the last checkpoint, from the journal.
            self.pair.push(self.dice, TOUCHED)
            self.pair.push_dense(0.25)
            if turn > 0:
                self.assertIn("increment on", self.kinds(server))
            self.pair.kill()
            self.expect_same()

    def test_two_increments_come_between_two_whole_ones(self):
        self.prepare()
        server = self.pair.servers[0]
        for _ in range(7):
            self.pair.push(self.dice, TOUCHED)
            self.save(server)

        kinds = self.kinds(server)[-7:]
        self.assertEqual([kinds[i] == "whole" for i in range(7)], [kinds[i % 3] == "whole"
                                                                  for i in range(7)])
        self.assertEqual(kinds.count("whole"), 2 if kinds[0] != "whole" else 3)
        names = [os.path.basename(path) for path in self.files(server)]
        increments = [name for name in names if "-on-" in name]
        self.assertLessEqual(len(names), 4)
        for name in increments:
            self.assertTrue(os.path.exists(self.base_of(server, name)))
        psckpt("verify", server.data)

    def test_an_increment_is_smaller_than_what_it_adds_to(self):
        self.prepare()
        server = self.pair.servers[0]
        while True:
            self.pair.push(self.dice, TOUCHED)
            self.save(server)
            newest = max(self.files(server), key=lambda path: os.path.basename(path)[:33])
            if "-on-" in newest:
                break
        whole = self.base_of(server, newest)
        self.assertLess(os.path.getsize(newest), os.path.getsize(whole))

    def test_a_damaged_increment_or_base_costs_nothing(self):
        self.prepare()
        server = self.pair.servers[0]
        for _ in range(4):
            self.pair.push(self.dice, TOUCHED)
            self.save(server)
        self.pair.push(self.dice, TOUCHED)
        self.pair.kill()
        newest = [path for path in self.files(server) if "-on-" in path][-1]
        flip(newest, offset_of(newest, "rows"))
        self.expect_same()
        # And so with a base: the older whole one and the journal behind it are there.
        for _ in range(2):
            self.pair.push(self.dice, TOUCHED)
            self.save(server)
        self.pair.push(self.dice, TOUCHED)
        self.pair.kill()
        newest = [path for path in self.files(server) if "-on-" in path][-1]
        whole = self.base_of(server, newest)
        flip(whole, offset_of(whole, "rows"))
        self.expect_same()

    def test_damage_that_shows_when_all_is_loaded_is_named_and_costs_nothing(self):
        self.prepare()
        server = self.pair.servers[0]
        while "-on-" not in self.files(server)[-1] or len(self.files(server)) < 4:
            self.pair.push(self.dice, TOUCHED)
            self.save(server)
        self.pair.push(self.dice, TOUCHED)
        self.pair.kill()
        newest = self.files(server)[-1]
        whole = self.base_of(server, newest)
        base = newest.split("-on-")[1].removesuffix(".safetensors")
        spoiled = [path for path in reversed(self.files(server)) if base in path]
        # The last byte of the last array that the load reads of that table.
        flip(whole, offset_of(whole, "ps.clock/rows") - 1 + 4 * self.rows_of(whole, "rows"))
        self.expect_same()
        events = server.process.events()
        unusable = [row for row in events if row["msg"] == "checkpoint is not usable"]
        self.assertEqual([row["name"] for row in unusable],
                         [os.path.basename(path) for path in spoiled])
        self.assertIn(f"clock of rows (in its base {base})", unusable[0]["error"])
        (loaded,) = [row for row in events if row["msg"] == "checkpoint loaded"]
        self.assertNotIn(loaded["path"], spoiled)
        self.assertTrue(os.path.exists(loaded["path"]), loaded)
        self.assertEqual(loaded["damaged"], len(spoiled))

    def rows_of(self, path, table):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            return json.loads(file.read(length))[f"ps.clock/{table}"]["shape"][0]


if __name__ == "__main__":
    unittest.main()
