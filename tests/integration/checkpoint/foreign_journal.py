# SPDX-License-Identifier: Apache-2.0
"""Holds the server's reader of journals to docs/journal-format.md.

usage: foreign_journal.py PATH-OF-journal_tool

Every field of whole journals is compared with what journal_tool puts in. On damaged journals the
reader of journal_page.py and the server's must come to the same result: records, end or damage,
and where. All that in both formats, and over what the server itself writes.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from journal_page import BLOCK, SECTOR, Damage, Journal, Unknown, up_to_8

TOOL = None
OTHER_LIFE = b""
SEED = 20261121


def lines_of(folder, position):
    """What this reader says, in the words of journal_tool."""
    lines = []
    try:
        records = Journal(folder).read(position)
        while True:
            head, _ = next(records)
            lines.append("%d %d" % (head.position, head.epoch))
    except StopIteration as stop:
        lines.append("end %d" % stop.value)
    except Unknown as unknown:
        lines.append("unsupported %s %d %d" % unknown.place)
    except Damage as damage:
        lines.append("corrupt %s %d %d" % damage.place)
    return lines


def make_other_life():
    """A segment of format 2 that lies behind the end of others."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([TOOL, "write", folder, "2", "3", "4", "18", "3", "100000", "2"], check=True)
        with open(folder + "/%016x-%016x.journal" % (3, 5), "rb") as file:
            return file.read()


class JournalCase:
    """The tests, in the format of a class below."""
    step = 9  # between the lengths to which a file is cut
    cases = 120

    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.folder = self.home.name + "/journal"

    def write(self, epoch, position, count, batch=1, segment_bytes=None, previous=None,
              history=0):
        numbers = (self.format, epoch, position, count, batch, segment_bytes or self.segment_bytes,
                   epoch - 1 if previous is None else previous, history)
        subprocess.run([TOOL, "write", self.folder] + [str(number) for number in numbers],
                       check=True)

    @staticmethod
    def records_end(path):
        """Where the last record of a file ends: no record of the tool's ends in eight zeros."""
        with open(path, "rb") as file:
            return up_to_8(len(file.read().rstrip(b"\0")))

    def place_of(self, position):
        for head, _ in Journal(self.folder).read(position - 1):
            return head.place

    def server_lines(self, position):
        return subprocess.run([TOOL, "read", self.folder, str(position)], check=True,
                              capture_output=True, text=True).stdout.splitlines()

    def assert_agree(self, position, what):
        theirs = self.server_lines(position)
        ours = lines_of(self.folder, position)
        # Damage that is found while opening has no place of its own.
        if theirs == ["corrupt  0 0"]:
            self.assertTrue(ours[-1].startswith("corrupt ") and len(ours) == 1, (what, ours))
            return
        self.assertEqual(theirs, ours, what)

    def test_every_field_is_that_of_the_documentation(self):
        self.write(7, 0, 60, batch=4)
        self.assertGreater(len(os.listdir(self.folder)), 3)
        position = 0
        for head, content in Journal(self.folder).read(0):
            position += 1
            named = position % 3 != 0
            self.assertEqual(head.position, position)
            self.assertEqual(head.epoch, 7)
            self.assertEqual(head.name, b"p%d" % (position % 5))
            self.assertEqual(head.dtype, position % 6)
            self.assertEqual(head.encoding, position % 7)
            self.assertEqual(head.version, position + 7)
            self.assertEqual(head.client_id, b"client" if named else b"")
            self.assertEqual(head.session, position + 1 if named else 0)
            self.assertEqual(head.sequence, position + 2 if named else 0)
            self.assertEqual(head.durable, (position - 1) // 4 * 4)
            self.assertEqual(content, bytes([position % 256]) * (3 * position % 41))
        self.assertEqual(position, 60)

    def test_the_first_record_describes_the_segment(self):
        self.write(9, 20, 40)
        segments = Journal(self.folder).segments
        self.assertGreater(len(segments), 2)
        for segment in segments:
            head = segment.head(0)
            self.assertEqual((head.type, head.position, head.epoch), (1, segment.first, 9))
            self.assertEqual(segment.data[head.size + 28:head.record_size],
                             bytes(4) if head.format == 2 else b"")
            self.assertEqual(struct.unpack_from("<IIQQ", segment.data, head.size), (1, 3, 20, 8))

    def test_the_history_stands_in_the_first_head_of_each_segment(self):
        self.write(9, 20, 40, history=7)
        segments = Journal(self.folder).segments
        self.assertGreater(len(segments), 2)
        for segment in segments:
            self.assertEqual(segment.data[64:80], bytes([7] * 16))
            self.assertEqual(segment.life.history, bytes([7] * 16))

    def test_no_reader_goes_on_into_another_history(self):
        self.write(1, 0, 20, history=1)
        self.write(2, 12, 10, history=0)
        self.write(3, 22, 10, history=1)
        self.write(4, 25, 10, history=2)
        for position in range(0, 36):
            self.assert_agree(position, position)
        self.assertEqual(lines_of(self.folder, 20)[:6],
                         ["21 2", "22 2", "23 3", "24 3", "25 3",
                          "corrupt %016x-%016x.journal 0 26" % (4, 26)])

    def test_both_readers_follow_the_same_epochs(self):
        self.write(1, 0, 20)
        self.write(2, 12, 20)
        self.write(5, 12, 0)
        self.write(6, 12, 30)
        self.write(9, 30, 2)
        for position in range(0, 40):
            self.assert_agree(position, position)
        self.assertEqual(lines_of(self.folder, 10),
                         ["11 1", "12 1"] + ["%d 6" % p for p in range(13, 31)] +
                         ["31 9", "32 9", "end 0"])

    def test_both_readers_pass_over_epochs_that_nobody_went_on_from(self):
        self.write(1, 0, 20)
        self.write(4, 12, 0)
        self.write(6, 16, 4, previous=1)
        for position in range(0, 22):
            self.assert_agree(position, position)
        self.assertEqual(lines_of(self.folder, 10),
                         ["%d 1" % p for p in range(11, 17)] + ["%d 6" % p for p in range(17, 21)] +
                         ["end 0"])

    def test_both_readers_leave_a_file_whose_write_failed_where_the_next_one_begins(self):
        self.write(1, 0, 10, segment_bytes=100000)
        name, offset = self.place_of(8)
        self.write(1, 6, 6, segment_bytes=100000)
        os.truncate(self.folder + "/" + name, offset + 40)
        self.write(2, 12, 1, previous=1)
        for position in range(0, 14):
            self.assert_agree(position, position)
        self.assertEqual(lines_of(self.folder, 0),
                         ["%d 1" % p for p in range(1, 13)] + ["13 2", "end 0"])

    def test_both_readers_agree_on_every_truncation_of_the_end(self):
        self.write(1, 0, 3)
        self.write(2, 3, 5, batch=3, segment_bytes=10000)
        path = self.folder + "/0000000000000002-0000000000000004.journal"
        for size in range(os.path.getsize(path) - 1, -1, -self.step):
            os.truncate(path, size)
            self.assert_agree(0, size)

    def test_both_readers_agree_on_damage(self):
        generator = random.Random(SEED)
        for case in range(self.cases):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.write(1, 0, 12, batch=1 + case % 5)
            self.write(3, 8, 12, batch=1 + case % 7, segment_bytes=(None, 100000)[case % 2])
            names = sorted(os.listdir(self.folder))
            for _ in range(1 + case % 3):
                self.damage(generator, self.folder + "/" + generator.choice(names), case % 5)
            self.assert_agree(generator.randrange(14), "seed %d, case %d" % (SEED, case))

    def note(self, epoch, position, suffix=".durable"):
        os.makedirs(self.folder, exist_ok=True)
        open(self.folder + "/%016x-%016x%s" % (epoch, position, suffix), "w").close()

    def test_both_readers_miss_what_was_noted(self):
        self.write(1, 0, 12)
        self.write(3, 12, 8, batch=4, segment_bytes=100000, previous=1)
        path = self.folder + "/%016x-%016x.journal" % (3, 13)
        whole = self.records_end(path)
        self.note(1, 40)
        self.note(3, 20)
        self.assert_agree(0, "whole")
        self.assertEqual(lines_of(self.folder, 19), ["20 3", "end 0"])
        for size in range(whole - 1, -1, -self.step):
            os.truncate(path, size)
            self.assert_agree(0, size)
            self.assertTrue(lines_of(self.folder, 0)[-1].startswith("corrupt "), size)
            self.assert_agree(20, size)
            self.assert_agree(30, size)

    def test_both_readers_miss_no_epoch_but_the_last(self):
        self.write(1, 0, 12)
        self.write(3, 12, 8, previous=1)
        self.note(1, 40)
        self.assert_agree(0, "of a former owner")
        self.assertEqual(lines_of(self.folder, 20), ["end 0"])
        self.note(4, 21)
        self.assert_agree(0, "of an epoch that is gone")
        self.assertTrue(lines_of(self.folder, 20)[-1].startswith("corrupt "))

    def test_both_readers_let_an_operator_decide(self):
        self.write(3, 12, 8)
        self.note(3, 25)
        self.note(25, 21, ".given-up")
        self.assert_agree(12, "given up elsewhere")
        self.note(25, 20, ".given-up")
        self.assert_agree(12, "given up here")
        self.assertEqual(lines_of(self.folder, 20), ["end 0"])

    def test_both_readers_agree_on_damage_of_what_was_noted(self):
        generator = random.Random(SEED + 1)
        for case in range(self.cases // 2):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.write(1, 0, 12, batch=1 + case % 5)
            self.write(3, 8, 12, batch=1 + case % 7, segment_bytes=(None, 100000)[case % 2])
            names = sorted(os.listdir(self.folder))
            self.note((1, 3, 4)[case % 3], generator.randrange(24))
            for _ in range(1 + case % 3):
                self.damage(generator, self.folder + "/" + generator.choice(names), case % 5)
            self.assert_agree(generator.randrange(14), "seed %d, case %d" % (SEED + 1, case))

    @staticmethod
    def damage(generator, path, kind):
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            return
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            at = generator.randrange(size)
            if kind == 0:
                file.truncate(at)
            elif kind == 1:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << generator.randrange(8)]))
            elif kind == 2:
                sector = at // SECTOR * SECTOR
                file.seek(sector)
                file.write(bytes(min(SECTOR, size - sector)))
            elif kind == 3:
                file.seek(0, os.SEEK_END)
                file.write(bytes(generator.randrange(3)) + OTHER_LIFE)
            elif generator.randrange(3) == 0:
                os.remove(path)


class Format1(JournalCase, unittest.TestCase):
    format = 1
    segment_bytes = 600


class Format2(JournalCase, unittest.TestCase):
    format = 2
    segment_bytes = 5 * BLOCK
    step = 61
    cases = 200

    def test_both_readers_end_where_a_former_life_goes_on(self):
        path = self.folder + "/%016x-%016x.journal" % (3, 9)
        self.write(3, 8, 12, batch=2, segment_bytes=100000)
        with open(path, "rb") as file:
            life = file.read()
        os.remove(path)
        self.write(3, 7, 20, batch=2, segment_bytes=100000)
        with open(self.folder + "/%016x-%016x.journal" % (3, 8), "rb") as file:
            former = file.read()
        shutil.rmtree(self.folder)
        self.write(1, 0, 8)
        for size in list(range(BLOCK, len(life) + 1, BLOCK)) + list(range(BLOCK, len(life), 501)):
            with open(path, "wb") as file:
                file.write(life[:size] + former[size:])
            self.assert_agree(8, size)
            if size % BLOCK == 0:
                last = 8 + 2 * (size // BLOCK - 1)
                self.assertEqual(lines_of(self.folder, 8),
                                 ["%d 3" % p for p in range(9, last + 1)] + ["end 0"])


class OfTheServer(JournalCase, unittest.TestCase):
    format = 0
    segment_bytes = 600
    step = 61
    cases = 40


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    OTHER_LIFE = make_other_life()
    unittest.main()
