#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What psckpt prune removes, and what it never does, on a folder that make_folder.c made."""

import glob
import os
import shutil
import unittest

from psckpt_run import digest, psckpt, psckpt_json
from test_psckpt import Folder, flip


class Pruning(Folder):
    def add_checkpoint(self, to):
        psckpt("replay", self.shards[0], "--to", to, "--out", self.path(f"at-{to}"))
        (path,) = glob.glob(self.path(f"at-{to}/shard-0/*"))
        return shutil.copy(path, self.shards[0])

    def test_the_newest_stay_and_the_journal_behind_them(self):
        before = digest(self.shards[0])
        for to in (25, 30, 35):
            self.add_checkpoint(to)
        psckpt("prune", self.shards[0], "--keep", 2)
        self.assertEqual(len(self.files("*.safetensors")), 2)
        self.assertEqual(digest(self.shards[0]), before)
        psckpt("verify", self.shards[0])
        positions = [row["last"] for row in psckpt_json("list", self.shards[0])[0]["journal"]]
        self.assertGreaterEqual(min(positions), 30)

    def test_what_the_folders_own_store_names_stays(self):
        (published,) = self.files("*.safetensors")
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data)
        for to in (25, 30, 35):
            self.add_checkpoint(to)
        psckpt("prune", self.data, "--keep", 2)
        self.assertTrue(os.path.exists(published))
        self.assertEqual(len(self.files("*.safetensors")), 3)

    def test_damaged_checkpoints_do_not_count_and_stay(self):
        for to in (25, 30, 35):
            path = self.add_checkpoint(to)
        flip(path, os.path.getsize(path) - 1)
        psckpt("prune", self.shards[0], "--keep", 2)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(len(self.files("*.safetensors")), 3)

    def test_checkpoints_of_a_fenced_owner_do_not_count(self):
        fenced = self.add_checkpoint(15)  # made at 15, and renamed to what a fenced owner leaves
        kept = [self.add_checkpoint(to) for to in (18, 25, 30)]
        name = os.path.basename(fenced).replace(f"{15:016x}", f"{28:016x}")
        os.rename(fenced, os.path.join(self.shards[0], name))
        psckpt("prune", self.shards[0], "--keep", 3)
        for path in kept:
            self.assertTrue(os.path.exists(path), path)

    def test_nothing_goes_where_nothing_is_to_spare(self):
        before = self.snapshot()
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.snapshot(), before)


if __name__ == "__main__":
    unittest.main(verbosity=1, defaultTest="Pruning")
