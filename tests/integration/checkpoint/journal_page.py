# SPDX-License-Identifier: Apache-2.0
"""A reader of journals by docs/journal-format.md, with the standard library alone."""
import os
import re
import struct

HEAD = struct.Struct("<4sIBBBBHBBIIQQQQQQQ")
SECTOR = 512
BLOCK = 4096
MAGIC = b"PSJR"
SEGMENT_CONTENT = {1: 24, 2: 32}


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


class Life:
    """What the first record of a segment says of the heads behind it."""

    def __init__(self, number, content, history):
        self.format = number
        self.salt = content[24:28] if number == 2 else b""
        self.history = history if any(history) else None

    def may_have(self, head):
        return head.format == self.format or head.format > 2


class Head:
    """A good head at `offset` of `data`; None when there is none. No life: a first record."""

    @staticmethod
    def at(data, offset, life=None):
        if len(data) - offset < HEAD.size:
            return None
        fields = HEAD.unpack_from(data, offset)
        head = Head()
        (magic, crc, head.format, head.type, head.dtype, id_bytes, name_bytes, head.encoding,
         head.zero, head.content_crc, _, head.content_bytes, head.position, head.epoch,
         head.durable, head.version, head.session, head.sequence) = fields
        if magic != MAGIC or id_bytes > 64 or name_bytes > 512:
            return None
        head.size = up_to_8(HEAD.size + id_bytes + name_bytes)
        covered = data[offset + 8:offset + head.size]
        salt = life.salt if life is not None else b""
        if len(data) - offset < head.size or crc32c(salt + covered) != crc:
            return None
        if life is not None and not life.may_have(head):
            return None
        if head.content_bytes > 2 ** 62:
            return None
        if head.type == 1 and \
                head.content_bytes != SEGMENT_CONTENT.get(head.format, head.content_bytes):
            return None
        if head.type in (2, 3, 4, 5) and name_bytes == 0:
            return None
        names = data[offset + HEAD.size:offset + HEAD.size + id_bytes + name_bytes]
        head.client_id, head.name = names[:id_bytes], names[id_bytes:]
        head.record_size = head.size + up_to_8(head.content_bytes)
        return head

    def known(self):
        other = (self.type in (2, 3, 4, 5) and self.dtype < 6 and self.encoding < 7 and
                 self.zero == 0)
        return self.format in (1, 2) and (self.type == 1 or other)


class Segment:
    def __init__(self, folder, name):
        self.name = name
        self.epoch, self.first = (int(part, 16) for part in name[:-8].split("-"))
        with open(os.path.join(folder, name), "rb") as file:
            self.data = file.read()
        self.life = None
        head = Head.at(self.data, 0)
        if head is not None and self.fits(head, 0, self.first) and self.whole(head, 0):
            self.life = Life(head.format, self.data[head.size:head.record_size], self.data[64:80])

    def head(self, offset):
        return Head.at(self.data, offset, self.life if offset > 0 else None)

    def is_reused(self):
        return self.life is not None and self.life.format == 2

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

    def behind_zeros(self, offset):
        """Where the next record begins when one ends at `offset`."""
        rest = self.data[offset:offset + -offset % BLOCK]
        if self.is_reused() and len(rest) == -offset % BLOCK and not any(rest):
            return offset + len(rest)
        return offset

    def seems_format_2(self):
        at = self.data.find(MAGIC)
        while at >= 0:
            if at % 8 == 0 and self.data[at + 8:at + 9] == b"\2":
                return True
            at = self.data.find(MAGIC, at + 1)
        return False

    def heads_behind(self, at, expected):
        """Offset and head of each good one from `at` on that has a position from `expected` on."""
        at = self.data.find(MAGIC, at)
        while at >= 0:
            head = Head.at(self.data, at, self.life) if at % 8 == 0 else None
            if head is not None and head.epoch == self.epoch and head.position >= expected:
                yield at, head
                at += head.record_size - 1
            at = self.data.find(MAGIC, at + 1)

    def cut_at(self, offset, expected):
        """The record at `offset` is not whole: how many bytes are torn there? None: damage."""
        if self.life is None and self.seems_format_2():
            return None
        head = self.head(offset)
        end = offset
        if offset == 0:
            end = 8
        elif head is not None and self.fits(head, offset, expected):
            end = offset + head.record_size
        first = None
        for at, head in self.heads_behind(end, expected):
            if head.durable >= expected:
                return None
            first = at if first is None else first
            end = at + head.record_size
        if self.is_reused():
            return min(end, len(self.data)) - offset
        if first is not None and not self.has_lost_sector(offset, first):
            return None
        return len(self.data) - offset

    def has_lost_sector(self, begin, end):
        for sector in range(begin // SECTOR, end // SECTOR):
            if not any(self.data[max(begin, sector * SECTOR):(sector + 1) * SECTOR]):
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
        if len(segments) == 1 and first.cut_at(0, first.first) is not None:
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
        self.history = None
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

    def see_history(self, segment):
        """Two that say one, and not the same, never meet."""
        if segment.life.history is not None:
            if self.history not in (None, segment.life.history):
                raise Damage(segment.name, 0, segment.first)
            self.history = segment.life.history

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
                offset = segment.behind_zeros(offset)
                if 0 < offset == len(segment.data):
                    break
                head = segment.head(offset)
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
                    cut = segment.cut_at(offset, expected) if last else None
                    if cut is None:
                        raise Damage(segment.name, offset, expected)
                    self.at = segment.name, offset
                    return expected, cut
                if offset == 0:
                    self.see_history(segment)
                if offset > 0:
                    if not skipped:
                        begin = offset + head.size
                        head.place = segment.name, offset
                        yield head, segment.data[begin:begin + head.content_bytes]
                    expected += 1
                offset += head.record_size
            self.at = segment.name, len(segment.data)
            if expected == end or last:
                return expected, 0
            if i + 1 == len(segments) or segments[i + 1].first != expected:
                raise Damage(segment.name, len(segment.data), expected)
        return expected, 0
