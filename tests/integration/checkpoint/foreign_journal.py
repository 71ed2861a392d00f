"""Reads journals by docs/journal-format.md, with the standard library alone.

usage: foreign_journal.py PATH-OF-journal_tool

Every field of whole journals is compared with what journal_tool puts in. On damaged journals this
reader and the server's must come to the same result: records, end or damage, and where.
"""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = None
SEED = 20261121
HEAD = struct.Struct("<4sIBBBBHBBIIQQQQQQQ")
SECTOR = 512


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def up_to_8(size):
    return (size + 7) // 8 * 8


class Damage(Exception):
    def __init__(self, segment, offset, position):
        super().__init__("%s %d %d" % (segment, offset, position))
        self.place = (segment, offset, position)


class Unknown(Damage):
    pass


class Head:
    """A good head at `offset` of `data`; None when there is none."""

    @staticmethod
    def at(data, offset):
        if len(data) - offset < HEAD.size:
            return None
        fields = HEAD.unpack_from(data, offset)
        head = Head()
        (magic, crc, head.format, head.type, head.dtype, id_bytes, name_bytes, head.encoding,
         head.zero, head.content_crc, _, head.content_bytes, head.position, head.epoch,
         head.durable, head.version, head.session, head.sequence) = fields
        if magic != b"PSJR" or id_bytes > 64 or name_bytes > 512:
            return None
        head.size = up_to_8(HEAD.size + id_bytes + name_bytes)
        covered = data[offset + 8:offset + head.size]
        if len(data) - offset < head.size or crc32c(covered) != crc:
            return None
        if head.content_bytes > 2 ** 62:
            return None
        if head.type == 1 and head.content_bytes != 24:
            return None
        if head.type == 2 and name_bytes == 0:
            return None
        names = data[offset + HEAD.size:offset + HEAD.size + id_bytes + name_bytes]
        head.client_id, head.name = names[:id_bytes], names[id_bytes:]
        head.record_size = head.size + up_to_8(head.content_bytes)
        return head

    def known(self):
        push = self.type == 2 and self.dtype < 6 and self.encoding < 7 and self.zero == 0
        return self.format == 1 and (self.type == 1 or push)


class Segment:
    def __init__(self, folder, name):
        self.name = name
        self.epoch, self.first = (int(part, 16) for part in name[:-8].split("-"))
        with open(os.path.join(folder, name), "rb") as file:
            self.data = file.read()

    def fits(self, head, offset, expected):
        return (head.epoch == self.epoch and head.position == expected and
                (head.type == 1) == (offset == 0))

    def whole(self, head, offset):
        begin = offset + head.size
        end = offset + head.record_size
        if end > len(self.data):
            return False
        content = self.data[begin:begin + head.content_bytes]
        padding = self.data[begin + head.content_bytes:end]
        return crc32c(content) == head.content_crc and not any(padding)

    def torn(self, offset, expected):
        """The record at `offset` is not whole: was it never written?"""
        head = Head.at(self.data, offset)
        at = offset
        if head is not None and self.fits(head, offset, expected):
            at = offset + head.record_size if offset > 0 else 8
        elif offset == 0:
            at = 8
        first = None
        while at < len(self.data):
            head = Head.at(self.data, at)
            if head is None or head.epoch != self.epoch or head.position < expected:
                at += 8
                continue
            if head.durable >= expected:
                return False
            first = at if first is None else first
            at += head.record_size
        if first is None:
            return True
        for sector in range(offset // SECTOR, first // SECTOR):
            piece = self.data[max(offset, sector * SECTOR):(sector + 1) * SECTOR]
            if not any(piece):
                return True
        return False


def pairs_of(folder, suffix):
    """The two numbers in the names that end so, in order."""
    if not os.path.isdir(folder):
        return []
    return sorted(tuple(int(part, 16) for part in name[:-len(suffix)].split("-"))
                  for name in os.listdir(folder)
                  if re.fullmatch("[0-9a-f]{16}-[0-9a-f]{16}" + re.escape(suffix), name))


class Journal:
    def __init__(self, folder):
        names = sorted(name for name in os.listdir(folder)
                       if re.fullmatch("[0-9a-f]{16}-[0-9a-f]{16}\\.journal", name))
        self.noted = pairs_of(folder, ".durable")
        self.given_up = pairs_of(folder, ".given-up")
        self.segments = [Segment(folder, name) for name in names]
        self.epochs = sorted({segment.epoch for segment in self.segments})
        self.drop_void()

    def of(self, epoch):
        return [segment for segment in self.segments if segment.epoch == epoch]

    def drop_void(self):
        i = len(self.epochs) - 1
        while i > 0:
            first = self.of(self.epochs[i])[0]
            head = Head.at(first.data, 0)
            if head is not None and first.fits(head, 0, first.first) and first.whole(head, 0):
                previous = struct.unpack_from("<Q", first.data, head.size + 16)[0]
                if previous > 0:
                    void = [epoch for epoch in self.epochs[:i] if epoch > previous]
                    self.epochs = [epoch for epoch in self.epochs if epoch not in void]
                    i -= len(void)
            i -= 1
        self.segments = [segment for segment in self.segments if segment.epoch in self.epochs]

    def begin(self, epoch):
        segments = self.of(epoch)
        first = segments[0]
        head = Head.at(first.data, 0)
        if head is not None and not first.fits(head, 0, first.first):
            raise Damage(first.name, 0, first.first)
        if head is not None and first.whole(head, 0):
            return struct.unpack_from("<Q", first.data, head.size + 8)[0] + 1
        if len(segments) == 1 and first.torn(0, first.first):
            return first.first
        raise Damage(first.name, 0, first.first)

    def is_missed(self, end):
        """Was a position behind `end`, where the journal ends, noted and not given up?"""
        last = self.epochs[-1] if self.epochs else 0
        epoch, position = self.noted[-1] if self.noted else (0, 0)
        return epoch >= last and position > end and \
            min((place for _, place in self.given_up), default=None) != end

    def read(self, position):
        """Yields (head, content) behind `position`; raises Damage; returns the bytes cut."""
        cut, self.at, end = 0, ("", 0), position
        for head, content in self.records(position):
            end = head.position
            yield head, content
        cut = self.cut
        if self.is_missed(end):
            raise Damage(self.at[0], self.at[1], end + 1)
        return cut

    def records(self, position):
        self.cut = yield from self.read_on(position)

    def read_on(self, position):
        wanted = position + 1
        known = [epoch for epoch in self.epochs if self.of(epoch)[0].first <= wanted]
        begins = {epoch: self.begin(epoch) if not known or epoch > known[-1]
                  else self.of(epoch)[0].first for epoch in self.epochs}
        expected = wanted
        while self.segments:
            current = [epoch for epoch in self.epochs if begins[epoch] <= expected]
            held = [segment for segment in self.of(current[-1]) if segment.first <= expected] \
                if current else []
            if not held:
                # The place is where the epoch's, or the whole journal's, first segment begins.
                named = self.of(current[-1])[0] if current else self.segments[0]
                raise Damage(named.name, 0, expected)
            end = min((begins[epoch] for epoch in self.epochs if epoch > current[-1]),
                      default=None)
            later = [segment for segment in self.of(current[-1])
                     if segment.first > held[-1].first]
            expected, cut = yield from self.read_epoch([held[-1]] + later, wanted, end)
            if expected != end:
                return cut
            wanted = expected
        return 0

    def read_epoch(self, segments, wanted, end):
        expected = segments[0].first
        for i, segment in enumerate(segments):
            last = i + 1 == len(segments) and end is None
            offset = 0
            while offset == 0 or offset < len(segment.data):
                if expected == end and offset > 0:
                    return expected, 0
                if offset > 0 and i + 1 < len(segments) and segments[i + 1].first == expected:
                    break
                head = Head.at(segment.data, offset)
                if head is not None and not head.known():
                    raise Unknown(segment.name, offset, expected)
                good = head is not None and segment.fits(head, offset, expected)
                if head is not None and not good and offset == 0:
                    raise Damage(segment.name, offset, expected)
                skipped = good and offset > 0 and expected < wanted
                if good and skipped:
                    good = offset + head.record_size <= len(segment.data)
                elif good:
                    good = segment.whole(head, offset)
                if not good:
                    if last and segment.torn(offset, expected):
                        self.at = segment.name, offset
                        return expected, len(segment.data) - offset
                    raise Damage(segment.name, offset, expected)
                if offset > 0:
                    if not skipped:
                        begin = offset + head.size
                        yield head, segment.data[begin:begin + head.content_bytes]
                    expected += 1
                offset += head.record_size
            self.at = segment.name, len(segment.data)
            if expected == end or last:
                return expected, 0
            if i + 1 == len(segments) or segments[i + 1].first != expected:
                raise Damage(segment.name, len(segment.data), expected)
        return expected, 0


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


class ForeignJournal(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.folder = self.home.name + "/journal"

    def write(self, epoch, position, count, batch=1, segment_bytes=600, previous=None):
        subprocess.run([TOOL, "write", self.folder] +
                       [str(number) for number in (epoch, position, count, batch, segment_bytes,
                                                   epoch - 1 if previous is None else previous)],
                       check=True)

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
            head = Head.at(segment.data, 0)
            self.assertEqual((head.type, head.position, head.epoch), (1, segment.first, 9))
            self.assertEqual(struct.unpack_from("<IIQQ", segment.data, head.size), (1, 3, 20, 8))

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
        self.write(1, 6, 6, segment_bytes=100000)
        os.truncate(self.folder + "/%016x-%016x.journal" % (1, 1), 1000)
        self.write(2, 12, 1, previous=1)
        for position in range(0, 14):
            self.assert_agree(position, position)
        self.assertEqual(lines_of(self.folder, 0),
                         ["%d 1" % p for p in range(1, 13)] + ["13 2", "end 0"])

    def test_both_readers_agree_on_every_truncation_of_the_end(self):
        self.write(1, 0, 3)
        self.write(2, 3, 5, batch=3, segment_bytes=10000)
        path = self.folder + "/0000000000000002-0000000000000004.journal"
        whole = os.path.getsize(path)
        for size in range(whole - 1, -1, -9):
            os.truncate(path, size)
            self.assert_agree(0, size)

    def test_both_readers_agree_on_damage(self):
        generator = random.Random(SEED)
        for case in range(200):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.write(1, 0, 12, batch=1 + case % 5)
            self.write(3, 8, 12, batch=1 + case % 7, segment_bytes=(500, 100000)[case % 2])
            names = sorted(os.listdir(self.folder))
            for _ in range(1 + case % 3):
                self.damage(generator, self.folder + "/" + generator.choice(names), case % 4)
            self.assert_agree(generator.randrange(14), "seed %d, case %d" % (SEED, case))

    def note(self, epoch, position, suffix=".durable"):
        os.makedirs(self.folder, exist_ok=True)
        open(self.folder + "/%016x-%016x%s" % (epoch, position, suffix), "w").close()

    def test_both_readers_miss_what_was_noted(self):
        self.write(1, 0, 12)
        self.write(3, 12, 8, batch=4, segment_bytes=100000, previous=1)
        path = self.folder + "/%016x-%016x.journal" % (3, 13)
        whole = os.path.getsize(path)
        self.note(1, 40)
        self.note(3, 20)
        self.assert_agree(0, "whole")
        self.assertEqual(lines_of(self.folder, 19), ["20 3", "end 0"])
        for size in range(whole - 1, -1, -9):
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
        for case in range(100):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.write(1, 0, 12, batch=1 + case % 5)
            self.write(3, 8, 12, batch=1 + case % 7, segment_bytes=(500, 100000)[case % 2])
            names = sorted(os.listdir(self.folder))
            self.note((1, 3, 4)[case % 3], generator.randrange(24))
            for _ in range(1 + case % 3):
                self.damage(generator, self.folder + "/" + generator.choice(names), case % 4)
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
            elif generator.randrange(3) == 0:
                os.remove(path)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
