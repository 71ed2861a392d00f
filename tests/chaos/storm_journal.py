# SPDX-License-Identifier: Apache-2.0
"""Reads journals without any code of the server: written from docs/journal-format.md alone.

A segment is a row of records: 80 fixed bytes, the client's id, the parameter's name, zeros to a
multiple of 8, the content, zeros to a multiple of 8. In format 2 the checksums of all heads but
the first begin with a salt from the first record, zeros up to a multiple of 4,096 follow each
write, and what lies behind the last one is of no use. An epoch says which one it goes on from;
those between the two are void. Of each other epoch counts what lies before the first position of
any later one.
"""

import dataclasses
import os
import re
import struct

MAGIC = 0x524A5350
HEAD = struct.Struct("<IIBBBBHxxIxxxxQQQQQQQ")
NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.journal")
FACTS = struct.Struct("<IIQQ")  # of a segment's first record: shard, shards, begin, previous epoch
SALT = slice(24, 28)  # behind them, in format 2
BLOCK = 4096
SEGMENT, PUSH, DEFINE, DROP, CONFIGURE = 1, 2, 3, 4, 5
CHANGES = PUSH, DEFINE, DROP, CONFIGURE


@dataclasses.dataclass
class Record:
    kind: int
    position: int
    epoch: int
    name: str
    version: int
    client_id: bytes
    session: int
    sequence: int
    content: memoryview


def make_table():
    rows = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        rows.append(number)
    return rows


TABLE = make_table()


def crc32c(data):
    table, crc = TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def padded(size):
    return (size + 7) // 8 * 8


def behind_zeros(data, at):
    """Where the next write begins, when only zeros are up to there."""
    rest = data[at:at + -at % BLOCK]
    return at + len(rest) if len(rest) == -at % BLOCK and not any(rest) else at


def read_segment(data):
    """Yields records up to the end, or up to the first bytes that are not a whole record; content
    is not checked here (psckpt verify does that)."""
    at, salt = 0, b""
    while at + HEAD.size <= len(data):
        (magic, crc, number, kind, _, id_bytes, name_bytes, _, content_bytes, position, epoch, _,
         version, session, sequence) = HEAD.unpack_from(data, at)
        head_bytes = padded(HEAD.size + id_bytes + name_bytes)
        content = at + head_bytes
        end = content + padded(content_bytes)
        if magic != MAGIC or end > len(data) or crc32c(salt + bytes(data[at + 8:content])) != crc:
            break
        names = at + HEAD.size + id_bytes
        if kind in CHANGES:
            name = bytes(data[names:names + name_bytes]).decode()
            yield Record(kind, position, epoch, name, version, bytes(data[at + HEAD.size:names]),
                         session, sequence, data[content:content + content_bytes])
        elif number == 2:
            salt = bytes(data[content:end][SALT])
        at = behind_zeros(data, end) if salt else end


def segments_of(folder):
    """{epoch: [(first position, path)]}, in order"""
    epochs = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        match = NAME.fullmatch(name)
        if match:
            epochs.setdefault(int(match.group(1), 16), []).append(
                (int(match.group(2), 16), os.path.join(folder, name)))
    return epochs


def previous_epoch(path):
    """That the epoch of this first segment goes on from; 0: none, or it cannot be read."""
    with open(path, "rb") as file:
        data = file.read(HEAD.size + FACTS.size + 8)
    if len(data) < HEAD.size + FACTS.size:
        return 0
    magic, crc, _, kind, _, _, _, content_crc, content_bytes, *_ = HEAD.unpack(data[:HEAD.size])
    content = data[HEAD.size:HEAD.size + content_bytes]
    good = (magic == MAGIC and kind == SEGMENT and crc32c(data[8:HEAD.size]) == crc and
            crc32c(content) == content_crc)
    return FACTS.unpack(content[:FACTS.size])[3] if good else 0


def current_epochs(folder):
    """segments_of the epochs that are not void"""
    epochs = segments_of(folder)
    newest_first = sorted(epochs, reverse=True)
    while newest_first:
        epoch = newest_first.pop(0)
        previous = previous_epoch(epochs[epoch][0][1])
        while previous and newest_first and newest_first[0] > previous:
            del epochs[newest_first.pop(0)]
    return epochs


def read_journal(folder):
    """Yields the current records of one shard, in order."""
    epochs = current_epochs(folder)
    for epoch in sorted(epochs):
        limit = min((rows[0][0] for later, rows in epochs.items() if later > epoch),
                    default=1 << 64)
        ends = [first for first, _ in epochs[epoch][1:]] + [limit]
        for (_, path), end in zip(epochs[epoch], ends):
            with open(path, "rb") as file:
                data = memoryview(file.read())
            for record in read_segment(data):
                if record.position < min(end, limit):
                    yield record


def decode(content, slots):
    """(slot, number) of a gradient of storm_model.c."""
    values = content[:4 * (1 + 3 * slots)].cast("f").tolist()
    slot = values[1::3].index(-1.0)
    return slot, int(-values[2 + 3 * slot]) * 64 + int(-values[3 + 3 * slot])


def read_shards(folders, parameters, slots):
    """Of all shards, each in journal order: [(parameter, slot, number, version, position)], the
    records of all other parameters with their shards, and the requests that stand there twice."""
    numbers = {name: i for i, (name, _) in enumerate(parameters)}
    pushes, others, twice = [], [], []
    for shard, folder in enumerate(folders):
        requests = set()
        for record in read_journal(folder):
            request = record.client_id, record.session, record.sequence
            if record.client_id and request in requests:
                twice.append((shard, record))
            requests.add(request)
            if record.name in numbers:
                pushes.append((numbers[record.name], *decode(record.content, slots),
                               record.version, record.position))
            else:
                others.append((shard, record))
    return pushes, others, twice
