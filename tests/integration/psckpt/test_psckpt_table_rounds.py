#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psckpt on the folder of a server that was killed in the middle of a round of a table: rows that
workers contributed are no rows yet, and an acknowledged contribution, an empty one too, is a
promise. It is shown, kept by what writes a folder, refused or named by what cannot keep it."""

import glob
import json
import os
import struct
import sys
import tempfile
import unittest

import grpc

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Server  # noqa: E402
from calls import MESSAGES  # noqa: E402
from psckpt_run import digest, psckpt, psckpt_json, read_safetensors  # noqa: E402
from recover_world import flip, offset_of  # noqa: E402
from test_tables import CONFIG, WIDTH, Rows, configuration  # noqa: E402

DIFFERENT = 1
DATA = 65
WORKERS = 3
ROW_BYTES = 8 + 4 * WIDTH


def in_rounds(config):
    config.rounds.workers = WORKERS
    config.rounds.combine = 1  # their sum


class Worker(Rows):
    """A client with a rank: adds as many to the rows of its keys as it is told."""

    def __init__(self, server, name, rank):
        super().__init__(server, name, client=b"%s-%d" % (name.encode(), rank))
        self.rank = rank

    def add(self, round_, rows, sequence=None):
        return self.push([(key, [-float(value)] * WIDTH) for key, value in rows], sequence,
                         worker=1 + self.rank, round=round_, ack=2)


class OpenRounds(unittest.TestCase):
    """Of two tables, of which `t` is at version 1 with keys 1, 2 and 7, and `u` at version 2. To
    the open round of `t` worker 1 has contributed rows of a key that there is and of one that there
    is not, worker 2 none at all; to that of `u` worker 0, twice to the same key."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = os.path.join(holder.name, "out")
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.workers = {}
        for name in ("t", "u"):
            self.workers[name] = [Worker(self.server, name, rank) for rank in range(WORKERS)]
            self.workers[name][0].define(configuration(in_rounds, rate=1.0))
        self.end_round("t", 1, {0: [(1, 1), (7, 1)], 1: [(2, 2), (7, 3)]})
        self.save()
        self.end_round("u", 1, {0: [(5, 1)]})
        self.end_round("u", 2, {1: [(5, 1), (6, 4)]})
        self.hold("t", 2, 1, [(2, 10), (9, 3)])
        self.hold("t", 2, 2, [])
        self.hold("u", 3, 0, [(6, 2), (6, 3)])

    def end_round(self, name, round_, rows):
        for worker in self.workers[name]:
            worker.add(round_, rows.get(worker.rank, []))

    def hold(self, name, round_, rank, rows):
        reply = self.workers[name][rank].add(round_, rows)
        self.assertEqual((reply.held, reply.version), (True, round_))

    def save(self):
        done = self.server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def newest(self, folder):
        return sorted(glob.glob(os.path.join(folder, "shard-0", "*.safetensors")))[-1]

    def killed(self, save=False):
        if save:
            self.save()
        self.server.process.kill()
        return self.server.data

    EXPECTED = [
        {"name": "t", "open_round": 2, "held": 2, "held_bytes": 2 * ROW_BYTES, "workers": "1 2",
         "evicted": 0},
        {"name": "u", "open_round": 3, "held": 1, "held_bytes": ROW_BYTES, "workers": "0",
         "evicted": 0}]

    def expect_shown(self, path):
        document = psckpt_json("show", path)
        self.assertEqual(document["rounds"], self.EXPECTED)
        rows = {row["name"]: (row.get("rows"), row["version"]) for row in document["parameters"]}
        self.assertEqual((rows["t"], rows["u"]), ((3, 1), (2, 2)))
        self.assertIn("1 2", psckpt("show", path))

    def values(self, name, keys):
        return [row[0] for row in self.workers[name][0].values(keys)]

    def expect_goes_on(self, folder):
        """What is held counts once, its repeats are known, and rounds need the others alone."""
        with Server(data=folder) as server:
            for worker in self.workers["t"] + self.workers["u"]:
                worker.server = server
            self.assertEqual(self.values("t", [1, 2, 7, 9]), [1.0, 2.0, 4.0, 0.0])
            self.assertEqual(self.values("u", [5, 6]), [2.0, 4.0])
            again = self.workers["t"][1].add(2, [(2, 10), (9, 3)], sequence=2)
            self.assertTrue(again.duplicate)
            with self.assertRaises(grpc.RpcError) as caught:
                self.workers["t"][2].add(2, [(1, 100)])
            self.assertEqual(caught.exception.code(), grpc.StatusCode.ALREADY_EXISTS)
            self.assertFalse(self.workers["t"][0].add(2, [(1, 5)]).held)
            self.assertTrue(self.workers["u"][2].add(3, [(5, 7)]).held)
            self.assertFalse(self.workers["u"][1].add(3, []).held)
            self.assertEqual(self.values("t", [1, 2, 7, 9]), [6.0, 12.0, 4.0, 3.0])
            self.assertEqual(self.values("u", [5, 6]), [9.0, 9.0])
            self.assertEqual(self.workers["t"][0].pull([1])[1].version, 2)

    def test_show_and_verify_of_a_checkpoint_in_the_middle_of_rounds(self):
        data = self.killed(save=True)
        self.expect_shown(self.newest(data))
        for path in (data, self.newest(data)):
            self.assertIn(" 0 damaged", psckpt("verify", path))
        self.assertEqual(digest(data, "--no-journal"), digest(data))
        self.expect_goes_on(data)

    def test_a_repaired_folder_goes_on_with_what_was_held(self):
        data = self.killed()
        psckpt("verify", data)
        psckpt("repair", data, "--out", self.out)
        self.expect_shown(self.newest(self.out))
        self.assertEqual(digest(self.out), digest(data))
        self.expect_goes_on(self.out)

    def test_a_replayed_position_has_what_was_held_then(self):
        data = self.killed()
        end = psckpt_json("digest", data)["shards"][0]["position"]
        psckpt("replay", data, "--to", str(end), "--out", self.out)
        self.expect_shown(self.newest(self.out))
        self.expect_goes_on(self.out)
        psckpt("replay", data, "--to", str(end - 2), "--out", self.out + "2")
        self.assertEqual([(row["name"], row["workers"]) for row in
                          psckpt_json("show", self.newest(self.out + "2"))["rounds"]],
                         [("t", "1")])

    def test_diff_says_what_it_does_not_compare(self):
        data = self.killed()
        psckpt("repair", data, "--out", self.out)
        self.assertEqual(psckpt_json("diff", data, self.out), [])
        self.assertIn("A holds 3, B 3", psckpt.errors)
        self.server.start()
        self.hold("u", 3, 1, [(5, 1)])
        self.server.process.kill()
        self.assertEqual(psckpt_json("diff", self.out, data), [])
        self.assertIn("A holds 3, B 4", psckpt.errors)
        self.server.start()
        self.workers["u"][2].add(3, [])
        self.server.process.kill()
        changes = psckpt_json("diff", self.out, data, code=DIFFERENT)
        self.assertEqual({change["name"] for change in changes}, {"u"})

    def test_export_has_rows_that_there_are_and_says_what_is_not_in_it(self):
        data = self.killed()
        psckpt("export", data, "--out", self.out)
        self.assertIn("3 contributions to open rounds are not in it", psckpt.errors)
        tensors = read_safetensors(os.path.join(self.out, "t.safetensors"))
        self.assertEqual(tensors["ps.keys/t"], [1, 2, 7])
        self.assertEqual(tensors["t"][::WIDTH], [1.0, 2.0, 4.0])

    def test_salvage_keeps_what_fits(self):
        data = self.killed()
        psckpt("salvage", data, "--out", self.out)
        self.expect_shown(self.newest(self.out))
        self.expect_goes_on(self.out)

    def test_salvage_of_a_checkpoint_and_one_before_keeps_every_contribution(self):
        data = self.killed(save=True)
        newest = self.newest(data)
        flip(newest, offset_of(newest, "ps.keys/u"))
        self.assertIn("ps.keys/u", psckpt("verify", data, code=DATA))
        psckpt("salvage", data, "--out", self.out)
        self.assertIn("u: taken from", psckpt.errors)
        self.expect_shown(self.newest(self.out))
        self.expect_goes_on(self.out)

    def test_salvage_without_a_journal_keeps_what_the_file_of_the_table_holds(self):
        data = self.killed(save=True)
        newest = self.newest(data)
        flip(newest, offset_of(newest, "ps.keys/u"))
        for path in glob.glob(os.path.join(data, "shard-0", "*.journal")):
            os.remove(path)
        psckpt("salvage", data, "--out", self.out)
        self.assertIn("1 contributions to rounds are left out", psckpt.errors)
        rounds = psckpt_json("show", self.newest(self.out))["rounds"]
        self.assertEqual(rounds, self.EXPECTED[:1])

    def test_salvage_of_several_files_knows_requests_that_either_of_them_has(self):
        """The sessions are those of the older file, and rows of `u` those of the newer one."""
        data = self.killed(save=True)
        newest = self.newest(data)
        flip(newest, offset_of(newest, "ps.keys/t"))
        psckpt("salvage", data, "--out", self.out)
        self.assertIn("t: taken from", psckpt.errors)
        self.expect_shown(self.newest(self.out))
        with Server(data=self.out) as server:
            worker = self.workers["u"][1]
            worker.server = server
            again = worker.add(2, [(5, 1), (6, 4)], sequence=2)
            self.assertEqual((again.duplicate, again.version), (True, 2))
            self.assertEqual([row[0] for row in worker.values([5, 6])], [2.0, 4.0])
        self.expect_goes_on(self.out)

    def test_reshard_refuses_until_the_rounds_have_ended(self):
        data = self.killed()
        psckpt("reshard", data, "--to", "2", "--out", self.out, code=DATA)
        self.assertIn("round 2 of t is open", psckpt.errors)
        self.assertFalse(os.path.exists(self.out))
        self.server.start()
        self.workers["t"][0].add(2, [])
        self.end_round_of_u()
        self.server.process.kill()
        psckpt("reshard", data, "--to", "2", "--out", self.out)
        self.assertEqual(psckpt_json("diff", data, self.out), [])

    def end_round_of_u(self):
        for rank in (1, 2):
            self.workers["u"][rank].add(3, [])

    def test_damage_to_what_is_held_is_named_and_an_older_file_with_the_journal_has_it(self):
        data = self.killed(save=True)
        newest = self.newest(data)
        flip(newest, offset_of(newest, "ps.rounds"))
        self.assertIn("tensor ps.rounds", psckpt("verify", data, code=DATA))
        psckpt("salvage", newest, "--out", self.out)
        self.assertIn("open rounds are not whole", psckpt.errors)
        self.assertNotIn("rounds", psckpt_json("show", self.newest(self.out)))
        self.expect_goes_on(data)


if __name__ == "__main__":
    unittest.main(verbosity=2)
