# SPDX-License-Identifier: Apache-2.0
"""Files of two trainings in one folder, by real servers: whoever copies a journal, a checkpoint or
the base of one into the folder of the other is told so by a server that does not serve them, and
has the old state back, to the bit, when they are gone again.
"""

import glob
import json
import os
import random
import shutil
import sys
import unittest

from blackbox import Calls, Cluster, Server, run
from cluster import wait_until
from test_tables import Rows, adagrad, configuration

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "psckpt"))

from psckpt_run import digest, psckpt, psckpt_json  # noqa: E402

DATAERR = 65
ROWS = 300


def shard_of(data):
    return os.path.join(data, "shard-0")


def files_of(data, ending):
    return sorted(glob.glob(os.path.join(shard_of(data), "*" + ending)))


def histories_of(data):
    """Name of a file to its history, as psckpt lists them."""
    (folder,) = psckpt_json("list", data)
    return {row["name"]: row.get("history") for row in folder["checkpoints"] + folder["journal"]}


class Histories(unittest.TestCase):
    def server(self, *flags):
        server = Server(*flags)
        self.addCleanup(server.__exit__)
        return server

    def save(self, server):
        done = server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def train(self, server, value, pushes):
        for _ in range(pushes):
            server.calls.push("w", [value] * 4)

    def pair(self):
        """One is at position 8, its checkpoint at 4. The other has been there as well, under a
        later owner, and has gone on from its checkpoint at 10."""
        own, other = self.server(), self.server()
        for server, value in ((own, 1.0), (other, -100.0)):
            server.make_ready()
            self.train(server, value, 4)
            self.save(server)
        self.train(own, 1.0, 4)
        own.process.kill()
        other.process.kill()
        other.start()
        self.train(other, -100.0, 6)
        self.save(other)
        self.train(other, -100.0, 2)
        other.process.kill()
        return own, other

    def copy(self, other, own, paths):
        """The copies, of files whose names the folder does not have."""
        names = [os.path.basename(path) for path in paths]
        copies = [os.path.join(shard_of(own.data), name) for name in names]
        copies = [path for path in copies if not os.path.exists(path)]
        self.assertNotEqual(copies, [])
        for path in copies:
            shutil.copy(os.path.join(shard_of(other.data), os.path.basename(path)), path)
        return copies

    def expect_refusal(self, own, copies):
        """Nothing is served and nothing is changed, and every file is named: by the server, and by
        what its advice says."""
        before = sorted(os.listdir(shard_of(own.data)))
        process = own.start(wait=False)
        wait_until(lambda: process.child.poll() is not None or process.event("listening"),
                   "it ends, or serves what it must not")
        self.assertIsNone(process.event("listening"), process.log())
        self.assertEqual(process.wait_exit(), DATAERR, process.log())
        self.assertEqual(sorted(os.listdir(shard_of(own.data))), before)
        named = {row["name"] for row in process.events() if row["msg"] == "file of another history"}
        self.assertEqual(named, {os.path.basename(path) for path in copies})
        self.assertIn("files of another history are in the folder", process.log())
        self.assertIn("psckpt verify DATA-DIR names the files of each history", process.log())
        found = psckpt_json("verify", own.data, code=DATAERR)
        mixed = {row["file"] for row in found["damages"] if row["part"] == "history"}
        self.assertEqual(mixed, set(copies))

    def check(self, own, copies, before):
        self.expect_refusal(own, copies)
        self.expect_refusal(own, copies)
        for path in copies:
            os.remove(path)
        self.assertEqual(digest(own.data), before)
        own.start()
        values, version = own.calls.pull("w")[:2]
        self.assertEqual((list(values), version), ([-8.0] * 4, 8))
        self.assertEqual(len(set(histories_of(own.data).values())), 1)

    def test_segments_of_another_training_are_not_replayed(self):
        own, other = self.pair()
        before = digest(own.data)
        self.check(own, self.copy(other, own, files_of(other.data, ".journal")), before)

    def test_a_newer_checkpoint_of_another_training_is_not_loaded(self):
        own, other = self.pair()
        before = digest(own.data)
        newest = files_of(other.data, ".safetensors")[-1:]
        self.check(own, self.copy(other, own, newest), before)

    def test_a_folder_put_over_another_is_not_served(self):
        own, other = self.pair()
        before = digest(own.data)
        paths = files_of(other.data, ".journal") + files_of(other.data, ".safetensors")
        self.check(own, self.copy(other, own, paths), before)

    def with_increments(self, seed):
        """A server that died behind an increment, and what it served."""
        server = self.server("--increments", "4")
        server.make_ready()
        dice = random.Random(seed)
        table = Rows(server, "rows")
        table.define(configuration(adagrad))
        table.push([(key, [dice.uniform(-1, 1)] * 4) for key in range(ROWS)], ack=2)
        self.save(server)
        while not any("-on-" in path for path in files_of(server.data, ".safetensors")):
            table.push([(dice.randrange(ROWS), [dice.uniform(-1, 1)] * 4)], ack=2)
            self.save(server)
        self.train(server, dice.uniform(-1, 1), 2)
        server.process.kill()
        return server

    def test_the_base_of_another_increment_is_no_checkpoint_of_this_one(self):
        own, other = self.with_increments(3), self.with_increments(4)
        before = digest(own.data)
        (increment,) = [path for path in files_of(other.data, ".safetensors") if "-on-" in path]
        base = increment.split("-on-")[1]
        bases = [path for path in files_of(other.data, base) if "-on-" not in path]
        copies = self.copy(other, own, bases)
        self.expect_refusal(own, copies)
        os.remove(copies[0])
        self.assertEqual(digest(own.data), before)
        own.start()
        own.calls.pull("w")
        own.process.kill()
        self.assertEqual(digest(own.data), before)

    def test_what_is_made_of_a_shard_goes_on_with_its_history_and_new_shards_begin_one(self):
        own = self.server()
        own.make_ready()
        self.train(own, 1.0, 4)
        own.process.kill()
        made = [os.path.join(own.cluster.folder, name) for name in ("repaired", "two", "again")]
        (history,) = set(histories_of(own.data).values())
        psckpt("repair", own.data, "--out", made[0])
        self.assertEqual(set(histories_of(made[0]).values()), {history})
        for folder in made[1:]:
            psckpt("reshard", own.data, "--to", 2, "--out", folder)
        two, again = ([{row["history"] for row in folder["checkpoints"]}
                       for folder in psckpt_json("list", path)] for path in made[1:])
        self.assertEqual(two, again)
        self.assertEqual(len({history} | two[0] | two[1]), 3)

    def test_what_makes_a_state_of_a_mixture_refuses(self):
        own, other = self.pair()
        self.copy(other, own, files_of(other.data, ".safetensors")[-1:])
        new = os.path.join(own.cluster.folder, "new")
        before = sorted(os.listdir(shard_of(own.data)))
        for words in (("digest", own.data), ("repair", own.data, "--out", new),
                      ("salvage", own.data, "--out", new), ("publish", own.data),
                      ("reshard", own.data, "--to", 2, "--out", new), ("prune", own.data)):
            psckpt(*words, code=DATAERR)
            self.assertIn("files of several histories are here", psckpt.errors, words)
        self.assertEqual(sorted(os.listdir(shard_of(own.data))), before)
        self.assertEqual(glob.glob(os.path.join(new, "**", "*.safetensors"), recursive=True), [])
        said = psckpt("verify", own.data, code=DATAERR)
        self.assertEqual(said.count("mixed "), 1)
        self.assertIn("move the files that do not belong to the shard out", psckpt.errors)
        # Without its store nobody knows which of them is the wrong one.
        os.rename(os.path.join(own.data, "store"), os.path.join(own.data, "no-store"))
        said = psckpt("verify", own.data, code=DATAERR)
        self.assertEqual(said.count("mixed "), len(histories_of(own.data)))

    def test_the_store_says_whose_the_shard_is(self):
        with Cluster(shards=1, interval="1h") as cluster:
            process = cluster.pserver("pserver-1")
            calls = Calls(process.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4)
            calls.finish()
            calls.push("w", [1.0] * 4)
            pointer = json.loads(cluster.etcdctl("get", "/checkpoints/0", "--print-value-only"))
            histories = histories_of(cluster.data)
            self.assertEqual(set(histories.values()), {pointer["history"]})
            self.assertGreaterEqual(len(histories), 2)
            shown = run("psckpt", "show", files_of(cluster.data, ".safetensors")[0])
            self.assertIn(pointer["history"], shown.stdout)


if __name__ == "__main__":
    unittest.main()
