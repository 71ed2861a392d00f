#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What verify says of pushes that were noted as durable and are not there (make_folder.c: the
journal of both shards ends with position 40 of epoch 8); and what the commands say of themselves.
"""

import os
import re
import unittest

from psckpt_run import digest, psckpt, psckpt_json, records_end
from test_psckpt import DATAERR, Folder

MISSING = 67
NOINPUT = 66


class Missing(Folder):
    def note(self, first, second, suffix=".durable"):
        with open(os.path.join(self.shards[0], f"{first:016x}-{second:016x}{suffix}"), "wb"):
            pass

    def test_an_end_before_what_was_noted_is_no_torn_end(self):
        path = self.files("0000000000000008-*.journal")[-1]
        self.note(8, 40)
        self.assertEqual(psckpt_json("verify", self.data)["missing_pushes"], 0)
        os.truncate(path, records_end(path) - 100)
        found = psckpt_json("verify", self.data, code=DATAERR)
        self.assertGreater(found["missing_pushes"], 0)
        self.assertIn(f"at least {found['missing_pushes']} acknowledged pushes are missing",
                      found["damages"][-1]["reason"])
        self.assertIn(f" {found['missing_pushes']} pushes missing\n",
                      psckpt("verify", self.data, code=DATAERR))
        psckpt("digest", self.data, code=DATAERR)

    def test_a_newest_segment_that_is_gone_is_missed(self):
        self.note(8, 40)
        for path in self.files("0000000000000008-*.journal")[1:]:
            os.remove(path)
        self.assertGreater(psckpt_json("verify", self.data, code=DATAERR)["missing_pushes"], 0)

    def test_an_exchange_that_was_broken_off_is_named(self):
        kept = self.shards[1] + ".before-1"
        os.rename(self.shards[1], kept)
        os.mkdir(self.shards[1] + ".new")
        for words in (("verify",), ("list",), ("digest",), ("repair", "--in-place")):
            psckpt(*words, self.data, code=NOINPUT)
            self.assertIn("shard-1 is not there: a command was broken off. Rename "
                          "shard-1.before-N, of the highest N, to shard-1, remove shard-1.new",
                          psckpt.errors)
        os.rename(kept, self.shards[1])
        psckpt("verify", self.data)

    def test_a_journal_that_was_kept_and_is_not_there_at_all_is_missed(self):
        psckpt("verify", self.data)
        self.note(8, 1)  # before the newest checkpoint: by its position nothing would be missing
        psckpt("verify", self.data)
        for path in self.files("*.journal"):
            os.remove(path)
        found = psckpt_json("verify", self.data, code=DATAERR)["damages"][-1]
        self.assertEqual((found["file"], found["part"]), (self.shards[0], "journal"))
        self.assertRegex(found["reason"], "a journal of epoch 8 was kept, and none is here: .* "
                         "behind position [0-9]+ is missing; psckpt publish")
        self.note(1, 1, ".given-up")
        psckpt("verify", self.data)

    def test_a_journal_that_cannot_be_read_is_not_missed(self):
        """Its owner is another, or the disk fails: nobody is to be told to give pushes up."""
        self.note(8, 1)
        path = self.files("0000000000000008-*.journal")[-1]
        os.rename(path, path + ".aside")
        os.mkdir(path)
        found = psckpt_json("verify", self.data, code=NOINPUT)
        self.assertEqual([damage["part"] for damage in found["damages"]], ["unreadable"])
        self.assertEqual((found["damaged"], found["missing_pushes"]), (0, 0))
        self.assertIn(os.path.basename(path), psckpt.errors)
        self.assertNotIn("psckpt publish", psckpt("verify", self.data, code=NOINPUT))
        self.assertNotIn("psckpt repair", psckpt.errors)

    def test_what_was_given_up_is_67_and_counted(self):
        self.note(8, 45)
        self.note(45, 40, ".given-up")
        self.assertEqual(psckpt_json("verify", self.data, code=MISSING)["missing_pushes"], 5)
        self.assertIn("at least 5 acknowledged pushes", psckpt("verify", self.data, code=MISSING))
        self.assertEqual(len(digest(self.data)), 64)

    def test_notes_of_a_fenced_owner_say_nothing(self):
        self.note(7, 400)
        psckpt("verify", self.data)
        self.assertEqual(len(digest(self.data)), 64)


class Pages(unittest.TestCase):
    def test_every_command_has_a_page_with_examples_of_its_own(self):
        page = psckpt("--help")
        listed = page[page.index("Commands:"):page.index("Options:")]
        commands = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
        self.assertIn("restore-set", commands)
        for command in commands:
            of_command = psckpt("help", command)
            self.assertIn(f"psckpt {command}", of_command[of_command.index("Examples:"):])
            self.assertEqual(psckpt(command, "--help"), page if command == "help" else of_command)
            self.assertIn(command, psckpt("completion", "bash"))
        self.assertEqual(psckpt("help"), page)
        psckpt("help", "nothing", code=64)
        self.assertIn('unknown command "nothing"', psckpt.errors)


if __name__ == "__main__":
    unittest.main()
