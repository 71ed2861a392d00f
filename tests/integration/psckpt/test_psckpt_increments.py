#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of psckpt on checkpoints that add to another (make_increment.c)."""

import glob
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from psckpt_run import digest, psckpt, psckpt_json, read_safetensors
from test_psckpt import DATAERR, flip


def offset_of(path, tensor):
    """Where the first byte of a tensor stands in a checkpoint."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return 8 + length + header[tensor]["data_offsets"][0]


class Increments(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.temp)
        subprocess.run([os.environ["MAKE_INCREMENT"], self.temp], check=True)
        self.data, self.whole = self.path("data"), self.path("whole")
        self.shard = os.path.join(self.data, "shard-0")

    def path(self, name):
        return os.path.join(self.temp, name)

    def file(self, letter):
        """The file of that uuid, whatever it adds to."""
        (path,) = [path for path in glob.glob(os.path.join(self.shard, "*"))
                   if os.path.basename(path)[34:].startswith(letter)]
        return path

    def letters(self):
        return "".join(sorted(row["uuid"] for row in
                              psckpt_json("list", self.shard)[0]["checkpoints"]))

    def by_hand(self, letter, base):
        """The table in two files as docs/checkpoint-format.md has it, with nothing of ours: rows by
        their keys, in order."""
        own = read_safetensors(self.file(letter))
        table = read_safetensors(self.file(base))
        gone = set(own.get("ps.removed/emb", [])) | set(own["ps.keys/emb"])
        rows = []
        for tensors, without in ((table, gone), (own, set())):
            for i, key in enumerate(tensors["ps.keys/emb"]):
                if key not in without:
                    rows.append((key, tensors["emb"][3 * i:3 * i + 3]))
        return rows

    def same(self, path):
        """It is the state that is in one file in the other folder."""
        self.assertEqual(digest(path), digest(self.whole))

    def test_list_says_what_adds_to_what(self):
        rows = psckpt_json("list", self.data)[0]["checkpoints"]
        self.assertEqual([(row["uuid"], row.get("base"), row["state"]) for row in rows],
                         [("d", "b", "whole"), ("c", "b", "whole"), ("b", None, "whole"),
                          ("a", None, "whole")])
        self.assertIn("-d-on-b.safetensors", psckpt("list", self.data))
        os.remove(self.file("b"))
        rows = psckpt_json("list", self.data)[0]["checkpoints"]
        self.assertEqual([row["state"] for row in rows], ["no-base", "no-base", "whole"])

    def test_show_says_what_the_file_itself_has(self):
        shown = psckpt_json("show", self.file("d"))
        self.assertEqual(shown["base"], "b")
        rows = {row["name"]: row for row in shown["parameters"]}
        self.assertEqual((rows["dense"]["carries"], rows["dense"]["bytes"]), ("whole", 16))
        self.assertEqual((rows["still"]["carries"], rows["still"]["bytes"]), ("as-base", 0))
        self.assertEqual(rows["still"]["element_count"], 2)
        table = rows["emb"]
        self.assertEqual((table["carries"], table["own_rows"], table["removed_rows"]),
                         ("rows", 4, 2))
        self.assertEqual((table["rows"], table["bytes"]), (6, 4 * (12 + 8 + 4) + 2 * 8))
        text = psckpt("show", self.file("d"))
        self.assertIn("base      b\n", text)
        self.assertIn("4 rows, 2 gone", text)
        self.assertNotIn("HERE", psckpt("show", self.file("b")))
        self.assertNotIn("carries", psckpt_json("show", self.file("b"))["parameters"][0])

    def test_show_of_one_without_its_base_says_so(self):
        os.remove(self.file("b"))
        psckpt("show", self.file("d"), code=DATAERR)
        self.assertIn("its base b is not in the folder", psckpt.errors)

    def test_digest_and_diff_see_one_state(self):
        self.same(self.data)
        self.same(self.file("d"))
        psckpt("diff", self.data, self.whole)
        self.assertNotEqual(digest(self.file("c")), digest(self.file("d")))

    def test_verify_follows_to_the_base(self):
        text = psckpt("verify", self.file("d"))
        self.assertIn("-d-on-b.safetensors, on b\n", text)
        self.assertIn("2 files, 0 damaged", text)
        self.assertIn("4 files, 0 damaged", psckpt("verify", self.data))
        flip(self.file("b"), os.path.getsize(self.file("b")) - 1)
        self.assertIn("2 files, 1 damaged", psckpt("verify", self.file("d"), code=DATAERR))
        os.remove(self.file("b"))
        text = psckpt("verify", self.data, code=DATAERR)
        self.assertIn("its base b is not in the folder", text)
        self.assertIn("3 files, 2 damaged", text)
        found = psckpt_json("verify", self.file("d"), code=DATAERR)
        self.assertEqual((found["files"], found["damaged"], found["damages"][0]["part"]),
                         (1, 1, "base"))

    def test_verify_names_what_is_damaged_of_the_file_itself(self):
        flip(self.file("d"), offset_of(self.file("d"), "ps.removed/emb"))
        self.assertIn("ps.removed/emb", psckpt("verify", self.data, code=DATAERR))

    def test_a_damaged_one_is_passed_over_for_the_next(self):
        flip(self.file("d"), offset_of(self.file("d"), "emb"))
        self.assertEqual(digest(self.data), digest(self.file("c")))
        os.remove(self.file("b"))
        self.assertEqual(digest(self.data), digest(self.file("a")))

    def test_what_is_written_of_it_is_whole(self):
        psckpt("repair", self.data, "--out", self.path("repaired"))
        psckpt("replay", self.shard, "--to", 20, "--out", self.path("replayed"))
        psckpt("salvage", self.data, "--out", self.path("salvaged"))
        psckpt("salvage", self.file("d"), "--out", self.path("alone"))
        for name in ("repaired", "replayed", "salvaged", "alone"):
            (row,) = psckpt_json("list", self.path(name))[0]["checkpoints"]
            self.assertNotIn("base", row)
            self.same(self.path(name))
            psckpt("verify", self.path(name))

    def test_repair_in_place_leaves_one_whole_file(self):
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data)
        psckpt("repair", self.data, "--in-place")
        self.same(self.data)
        (row,) = psckpt_json("list", self.shard)[0]["checkpoints"]
        self.assertNotIn("base", row)
        self.assertEqual(len(os.listdir(self.shard + ".before-1")), 4)

    def test_publish_leaves_both_files_where_they_are(self):
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data)
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.letters(), "abcd")
        self.same(self.data)

    def test_export_and_reshard_take_the_rows_of_both(self):
        psckpt("export", self.data, "--out", self.path("plain"), "--merge")
        psckpt("export", self.whole, "--out", self.path("plain-whole"), "--merge")
        tensors = [read_safetensors(self.path(f"{name}/merged.safetensors"))
                   for name in ("plain", "plain-whole")]
        self.assertEqual(tensors[0], tensors[1])
        self.assertEqual(tensors[0]["ps.keys/emb"], [1, 2, 4, 5, 6, 9])
        for source, name in ((self.data, "cut"), (self.whole, "cut-whole")):
            psckpt("reshard", source, "--to", 2, "--out", self.path(name))
        self.assertEqual(digest(self.path("cut")), digest(self.path("cut-whole")))

    def test_the_page_is_enough_to_read_both(self):
        rows = self.by_hand("d", "b")
        self.assertEqual([key for key, _ in rows], [1, 6, 9, 5, 4, 2])
        psckpt("export", self.data, "--out", self.path("plain"), "--merge")
        tensors = read_safetensors(self.path("plain/merged.safetensors"))
        self.assertEqual(tensors["ps.keys/emb"], sorted(key for key, _ in rows))
        self.assertEqual(tensors["emb"], [x for _, row in sorted(rows) for x in row])

    def test_salvage_takes_what_the_file_has_itself(self):
        os.remove(self.file("b"))
        psckpt("salvage", self.data, "--out", self.path("salvaged"))
        self.assertIn("still: taken from", psckpt.errors)
        self.assertIn("emb: taken from", psckpt.errors)
        self.assertNotIn("dense: taken from", psckpt.errors)
        psckpt("export", self.path("salvaged"), "--out", self.path("plain"), "--merge")
        tensors = read_safetensors(self.path("plain/merged.safetensors"))
        self.assertEqual(tensors["dense"], [7, 2, 3, 4])
        self.assertEqual(tensors["ps.keys/emb"], [1, 2, 3, 4, 5, 6])

    def test_salvage_of_one_file_without_its_base(self):
        alone = self.path("alone")
        os.mkdir(alone)
        shutil.copy(self.file("d"), alone)
        psckpt("salvage", os.path.join(alone, os.path.basename(self.file("d"))), "--out",
               self.path("salvaged"), code=1)
        self.assertIn("its base b is not in the folder", psckpt.errors)
        self.assertIn("emb: left out: it is whole nowhere", psckpt.errors)
        self.assertIn("still: left out: it is whole nowhere", psckpt.errors)
        self.assertIn("1 of 3 parameters", psckpt.errors)
        psckpt("export", self.path("salvaged"), "--out", self.path("plain"), "--merge")
        tensors = read_safetensors(self.path("plain/merged.safetensors"))
        self.assertEqual(list(tensors), ["dense"])

    def test_what_was_in_lost_bases_alone_is_missing_and_said(self):
        """Every whole checkpoint is gone, and what adds to them does not have all parameters: a
        salvage that says nothing of the others would be taken for the model."""
        for letter in "ab":
            os.remove(self.file(letter))
        psckpt("verify", self.data, code=DATAERR)
        self.assertIn("psckpt salvage", psckpt.errors)
        self.assertNotIn("psckpt repair", psckpt.errors)
        psckpt("repair", self.data, "--out", self.path("repaired"), code=DATAERR)
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data, code=DATAERR)
        self.assertIn("psckpt salvage takes", psckpt.errors)
        psckpt("salvage", self.data, "--out", self.path("salvaged"), code=1)
        self.assertIn("still: left out: it is whole nowhere", psckpt.errors)

    def test_verify_names_repair_while_one_is_whole(self):
        os.remove(self.file("b"))
        psckpt("verify", self.data, code=DATAERR)
        self.assertIn("psckpt repair", psckpt.errors)
        self.assertNotIn("psckpt salvage", psckpt.errors)

    def test_prune_never_takes_a_base_that_is_needed(self):
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.letters(), "abcd")
        for name in ("x", "y"):
            shutil.copy(self.file("a"), os.path.join(
                self.shard, f"{1:016x}-{ord(name):016x}-{name}.safetensors"))
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.letters(), "xy")

    def test_prune_keeps_what_adds_to_one_that_stays(self):
        shutil.copy(self.file("a"), os.path.join(
            self.shard, f"{1:016x}-{12:016x}-x.safetensors"))
        os.remove(self.file("c"))
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.letters(), "bdx")
        self.same(self.data)

    def test_prune_counts_none_whose_base_is_damaged(self):
        flip(self.file("b"), os.path.getsize(self.file("b")) - 1)
        psckpt("prune", self.data, "--keep", 2)
        self.assertEqual(self.letters(), "abcd")


if __name__ == "__main__":
    unittest.main(verbosity=1, defaultTest="Increments")
