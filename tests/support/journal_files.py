# SPDX-License-Identifier: Apache-2.0
"""Where the records of a segment end, by docs/journal-format.md, for tests that damage one."""

import struct

MAGIC, BLOCK = b"PSJR", 4096


def records_end(path):
    """Behind the last record of a whole segment: from there on come zeros up to the end of a block,
    or the remains of what the file was before, whose positions do not go on from here."""
    with open(path, "rb") as file:
        data = file.read()
    end = at = 0
    expected = None
    while data[at:at + 4] == MAGIC:
        id_bytes, name_bytes = struct.unpack_from("<BH", data, at + 11)
        content_bytes, position = struct.unpack_from("<QQ", data, at + 24)
        if expected is not None and position != expected:
            break
        # The first record has the position of the push behind it.
        expected = position if expected is None else position + 1
        end = at + up_to(80 + id_bytes + name_bytes, 8) + up_to(content_bytes, 8)
        at = end if data[end:end + 4] == MAGIC else up_to(end, BLOCK)
    return end


def up_to(size, unit):
    return (size + unit - 1) // unit * unit
