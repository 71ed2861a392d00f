#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psckpt on the folder of a server that was killed while a round was open, or clocks were set: what
was acknowledged is shown, kept by what writes a folder, and refused or named by what cannot keep
it."""

import glob
import json
import os
import struct
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Server  # noqa: E402
from cluster import PATIENCE  # noqa: E402
from psckpt_run import psckpt, psckpt_json  # noqa: E402
from test_clocks import SSP, Workers  # noqa: E402
from test_rounds import Base, rounds  # noqa: E402


class OpenRound(Base):
    """Of three workers the last two have contributed to the round that makes version 2."""

    def setUp(self):
        self.start()
        self.define([10.0, 10.0], rounds(3), 3)
        for worker in self.workers:
            worker.contribute([1.0, 1.0])
        for worker in self.workers[1:]:
            self.assertTrue(worker.contribute([3.0, 6.0], 2).held)
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.out = os.path.join(self.holder.name, "out")

    def newest(self, folder):
        return sorted(glob.glob(os.path.join(folder, "shard-0", "*.safetensors")))[-1]

    def expect_open(self, folder):
        document = psckpt_json("show", self.newest(folder))
        self.assertEqual(document["rounds"], [
            {"name": "m", "open_round": 2, "held": 2, "held_bytes": 16, "workers": "1 2",
             "evicted": 0}])
        self.assertIn("1 2", psckpt("show", self.newest(folder)))

    def expect_round_ends(self, folder):
        """A server on the folder needs the first worker, and no other."""
        with Server(data=folder) as server:
            self.server = server
            self.workers[0].server = server
            self.assertFalse(self.workers[0].contribute([0.0, 0.0], 2).held)
            self.assertEqual(self.values(), ([7.0, 5.0], 2))

    def test_a_repaired_folder_goes_on_with_what_was_held(self):
        self.server.process.kill()
        psckpt("verify", self.server.data)
        psckpt("repair", self.server.data, "--out", self.out)
        psckpt("verify", self.out)
        self.expect_open(self.out)
        self.expect_round_ends(self.out)

    def test_rounds_says_who_counted(self):
        self.workers[0].contribute([0.0, 0.0], 2)
        for worker in self.workers[:2]:
            worker.contribute([0.0, 0.0], 3)
        self.owner.configure("m", rounds(3, grace_ms=1))
        self.assertEqual(self.values(3)[1], 3)
        self.owner.configure("m", rounds(3))
        self.workers[0].contribute([0.0, 0.0], 4)
        self.workers[1].contribute([0.0, 0.0], 4)
        self.server.process.kill()
        rows = psckpt_json("rounds", self.server.data)
        self.assertEqual([(row["round"], row["counted"], row["slower"], row["evicted"])
                          for row in rows],
                         [(1, "0-2", "", ""), (2, "0-2", "", ""), (3, "0-1", "", "2"),
                          (4, "0-1", "", "2")])
        self.assertEqual({(row["parameter"], row["workers"]) for row in rows}, {("m", 3)})
        lines = [line.split() for line in psckpt("rounds", self.server.data).splitlines()]
        self.assertEqual([line[0] for line in lines], ["ROUND", "1", "2", "3", "4"])

    def test_salvage_keeps_what_fits(self):
        self.server.process.kill()
        psckpt("salvage", self.server.data, "--out", self.out)
        self.expect_open(self.out)
        self.expect_round_ends(self.out)

    def test_reshard_refuses_and_says_which_round_is_open(self):
        self.server.process.kill()
        psckpt("reshard", self.server.data, "--to", "2", "--out", self.out, code=65)
        self.assertIn("round 2 of m is open", psckpt.errors)
        self.assertFalse(os.path.exists(self.out))

    def damaged(self):
        """Saves, kills the server, and flips a bit of the open round in the newest checkpoint."""
        save = self.server.calls.channel.unary_unary("/pserver.v1.Admin/SaveCheckpoint")
        save(b"", timeout=PATIENCE)
        self.server.process.kill()
        path = self.newest(self.server.data)
        with open(path, "r+b") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            begin, _ = json.loads(file.read(length))["ps.rounds"]["data_offsets"]
            file.seek(8 + length + begin)
            (byte,) = file.read(1)
            file.seek(8 + length + begin)
            file.write(bytes([byte ^ 1]))
        return path

    def test_a_damaged_open_round_is_named_and_an_older_file_with_the_journal_has_it(self):
        path = self.damaged()
        self.assertIn(f"{path}: tensor ps.rounds", psckpt("verify", self.server.data, code=65))
        self.server.start()
        self.assertIn("checkpoint is not usable", self.server.process.log())
        self.assertFalse(self.workers[0].contribute([0.0, 0.0], 2).held)
        self.assertEqual(self.values(), ([7.0, 5.0], 2))

    def test_salvage_says_that_a_damaged_open_round_is_lost(self):
        path = self.damaged()
        psckpt("salvage", path, "--out", self.out)
        self.assertIn("open rounds are not whole", psckpt.errors)
        self.assertNotIn("rounds", psckpt_json("show", self.newest(self.out)))

    def test_export_says_what_is_not_in_it(self):
        self.server.process.kill()
        psckpt("export", self.server.data, "--out", self.out)
        self.assertIn("2 contributions to open rounds are not in it", psckpt.errors)


class Clocks(unittest.TestCase):
    def test_resharding_takes_the_clocks_along(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.make_ready("w", (1.0, 2.0, 3.0, 4.0))
            workers = Workers(server)
            workers.set(3, SSP, staleness=2)
            workers.clock(0, 7)
            workers.clock(2, 4)
            server.process.kill()
            out = os.path.join(temp, "out")
            psckpt("reshard", server.data, "--to", "1", "--out", out)
            (path,) = glob.glob(os.path.join(out, "shard-0", "*.safetensors"))
            self.assertEqual(psckpt_json("show", path)["clocks"], [
                {"name": "c", "consistency": "ssp", "staleness": 2, "workers": 3, "evicted": 0,
                 "minimum": 0, "slowest": 1}])

            with Server(data=out) as again:
                workers.server = again
                self.assertEqual(workers.clocks(), [7, 0, 4])


if __name__ == "__main__":
    unittest.main()
