# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints by the public rules of safetensors, with the standard library alone.

usage: foreign_reader.py PATH-OF-write_checkpoint

What write_checkpoint puts in is known here, so that values are compared as well as structure:
header length, one JSON object, no name twice, strings as metadata, arrays side by side from the
first byte to the last. Then the rules of our own (docs/checkpoint-format.md): alignment, order,
checksums.
"""
import base64
import json
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

WRITER = None
WIDTHS = {"U8": 1, "I32": 4, "U32": 4, "I64": 8, "U64": 8, "F32": 4, "F64": 8}
CODES = {"I32": "i", "U32": "I", "I64": "q", "U64": "Q", "F32": "f", "F64": "d"}
LABELS = ["I32", "U32", "I64", "U64", "F32", "F64"]


def crc32c(data):
    """CRC-32C bit by bit: slow, and nothing of ours in it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def without_duplicates(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name is there twice")
    return dict(pairs)


def load(path):
    """Header, metadata and tensors of a safetensors file, checked by the rules of the format."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    assert 8 + length <= len(content), "the header is longer than the file"
    assert content[8:9] == b"{", "the header does not begin with {"
    header = json.loads(content[8:8 + length].decode("utf-8"),
                        object_pairs_hook=without_duplicates)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values()), "metadata other than text"
    data = content[8 + length:]
    tensors = {}
    expected = 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(info) == {"dtype", "shape", "data_offsets"}, info
        begin, end = info["data_offsets"]
        count = 1
        for dimension in info["shape"]:
            count *= dimension
        assert begin == expected, "a gap or an overlap before " + name
        assert end - begin == count * WIDTHS[info["dtype"]], "the size of " + name
        tensors[name] = (info["dtype"], begin, data[begin:end])
        expected = end
    assert expected == len(data), "bytes that belong to no tensor"
    return content, length, metadata, tensors


def records_of(data):
    """(type, name, version, content) of each record of a section, every rule of it checked."""
    found = []
    while data:
        magic, crc, form, kind, _, id_size, name_size, encoding, zero = \
            struct.unpack_from("<4sIBBBBHBB", data)
        content_crc, fingerprint, size, position, epoch, durable, version, session, sequence = \
            struct.unpack_from("<IIQQQQQQQ", data, 16)
        assert (magic, form, id_size, encoding, zero) == (b"PSJR", 2, 0, 0, 0)
        assert (fingerprint, session, sequence) == (0, 0, 0)
        assert (position, epoch, durable) == (9007199254740993, 7, 9007199254740993)
        begin = (80 + name_size + 7) // 8 * 8
        end = (begin + size + 7) // 8 * 8
        assert crc32c(b"\0\0\0\0" + data[8:begin]) == crc, "the head's checksum"
        assert crc32c(data[begin:begin + size]) == content_crc, "the content's checksum"
        assert not any(data[80 + name_size:begin]) and not any(data[begin + size:end])
        name = data[80:80 + name_size].decode("utf-8")
        found.append((kind, name, version, data[begin:begin + size]))
        data = data[end:]
    return found


def ages_of(entry):
    """What is said of the ages of a table's rows, every rule of it checked."""
    parts = {}
    for word in entry["ages"].split(" "):
        if word.isdecimal():
            parts[part].append(int(word))
        else:
            part = word
            assert part not in parts
            parts[part] = []
    assert list(parts) == [part for part in ("due", "time", "clocks") if part in parts] != []
    version = int(entry["version"])
    assert "due" not in parts or (len(parts["due"]) == 1 and 0 < parts["due"][0] <= version + 1)
    for part in ("time", "clocks"):
        whens, versions = parts.get(part, [0])[::2], parts.get(part, [0, 0])[1::2]
        assert 1 <= len(whens) == len(versions) <= 18 or part not in parts
        assert whens == sorted(whens, reverse=part == "time") and versions == sorted(versions)
        assert versions[-1] <= version
    return parts


class ForeignReader(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def written(self, count, *more):
        line = subprocess.run([WRITER, self.folder.name + "/new/folder", str(count), *more],
                              check=True, capture_output=True, text=True).stdout
        path, crc32, size = line.rsplit(" ", 2)
        content, length, metadata, tensors = load(path)
        self.header = json.loads(content[8:8 + length])
        self.assertEqual(zlib.crc32(content), int(crc32))
        self.assertEqual(len(content), int(size))
        return content, length, metadata, tensors

    def test_weights_are_readable_by_the_rules_of_the_format(self):
        _, _, _, tensors = self.written(12)
        for i in range(12):
            label, _, data = tensors["p%d" % i]
            self.assertEqual(label, LABELS[i % 6])
            self.assertEqual(struct.unpack("<%d%s" % (i + 1, CODES[label]), data),
                             tuple([2 * i + 1] * (i + 1)))

    def test_state_stands_beside_the_weights(self):
        _, _, _, tensors = self.written(12)
        for i in range(12):
            for state in range(i % 3):
                label, _, data = tensors["ps.state/%d/p%d" % (state, i)]
                self.assertEqual(label, LABELS[i % 6])
                self.assertEqual(struct.unpack("<%d%s" % (i + 1, CODES[label]), data),
                                 tuple([2 * i + 2 + state] * (i + 1)))
        self.assertEqual(len(tensors), 1 + 12 + sum(i % 3 for i in range(12)))

    def test_shapes_are_those_of_the_parameters(self):
        _, _, metadata, _ = self.written(12)
        for i in range(12):
            shape = [2, (i + 1) // 2] if i % 4 == 3 else [i + 1]
            self.assertEqual(self.header["p%d" % i]["shape"], shape)
            for state in range(i % 3):
                self.assertEqual(self.header["ps.state/%d/p%d" % (state, i)]["shape"], shape)
        self.assertEqual(metadata["ps.format"], "2")

    def test_an_empty_checkpoint_is_readable(self):
        _, _, metadata, tensors = self.written(0)
        self.assertEqual(list(tensors), ["ps.sessions"])
        self.assertEqual(json.loads(metadata["ps.parameters"]), [])

    def test_sessions_are_bytes_behind_everything_else(self):
        _, _, metadata, tensors = self.written(5)
        label, begin, data = tensors["ps.sessions"]
        self.assertEqual((label, data), ("U8", b"remembered"))
        self.assertEqual(begin, max(begin for _, begin, _ in tensors.values()))
        self.assertEqual("%08x" % crc32c(data), metadata["ps.sessions_crc32c"])

    def test_rounds_clocks_and_candidates_are_records_behind_the_sessions(self):
        _, _, metadata, tensors = self.written(5, "sections")
        self.assertEqual(list(tensors)[-4:],
                         ["ps.sessions", "ps.rounds", "ps.clocks", "ps.candidates"])
        self.assertEqual(metadata["ps.format"], "5")
        for name in ("ps.rounds", "ps.clocks", "ps.candidates"):
            label, _, data = tensors[name]
            self.assertEqual(label, "U8")
            self.assertEqual("%08x" % crc32c(data), metadata[name + "_crc32c"])
        self.assertEqual(records_of(tensors["ps.rounds"][2]), [
            (7, "p0", 10, struct.pack("<IHH", 9, 0, 1 << 5)),
            (6, "p0", 10, struct.pack("<If", 2, 1.5) + b"grad")])
        self.assertEqual(records_of(tensors["ps.clocks"][2]), [
            (8, "main", 0, struct.pack("<IIIIQ", 2, 1, 3, 1, 30000)),
            (9, "main", 0, struct.pack("<IIQ", 1, 0, 77))])
        self.assertEqual(records_of(tensors["ps.candidates"][2]), [
            (11, "p1", 10, struct.pack("<QQIIII", first, 2 ** 64 - 1 - first, 1, 2, 30, 40))
            for first in (5, 6)])

    def test_tables_are_matrices_with_their_keys(self):
        _, _, metadata, tensors = self.written(12, "tables")
        self.assertEqual(metadata["ps.format"], "3")
        entries = {entry["name"]: entry for entry in json.loads(metadata["ps.parameters"])}
        for i in range(1, 12, 2):
            rows, name = (0 if i == 1 else i + 1), "p%d" % i
            label, _, data = tensors[name]
            self.assertEqual(entries[name]["width"], "3")
            self.assertEqual(self.header[name]["shape"], [rows, 3])
            self.assertEqual(struct.unpack("<%d%s" % (3 * rows, CODES[label]), data),
                             tuple([2 * i + 1] * (3 * rows)))
            keys, clock = tensors["ps.keys/" + name], tensors["ps.clock/" + name]
            self.assertEqual((keys[0], clock[0]), ("U64", "U32"))
            self.assertEqual(struct.unpack("<%dQ" % rows, keys[2]),
                             tuple(range(0, 1000 * rows, 1000)))
            self.assertEqual(struct.unpack("<%dI" % rows, clock[2]), tuple(range(5, 5 + rows)))
            for state in range(i % 3):
                self.assertEqual(self.header["ps.state/%d/%s" % (state, name)]["shape"],
                                 [rows, 1 if state == 0 else 3])
            sums = ["%08x" % crc32c(tensors[tensor][2]) for tensor in
                    [name] + ["ps.state/%d/%s" % (state, name) for state in range(i % 3)] +
                    ["ps.keys/" + name, "ps.clock/" + name]]
            self.assertEqual(entries[name]["crc32c"], sums)
            self.assertEqual("ages" in entries[name], rows > 0)
            if rows > 0:
                self.assertEqual(ages_of(entries[name]), {
                    "due": [2], "time": [61000, 3, 59000, 9], "clocks": [5, 3, 6, 9]})
        for name, (label, begin, _) in tensors.items():
            self.assertEqual(begin % WIDTHS[label], 0, name)

    def test_the_metadata_says_what_the_documentation_says(self):
        _, _, metadata, _ = self.written(3)
        known = {key: metadata[key] for key in metadata
                 if key not in ("ps.header_crc32c", "ps.sessions_crc32c", "ps.parameters")}
        self.assertEqual(known, {
            "format": "pt", "ps.format": "1", "ps.uuid": "0f47ac10-58cc-4372-a567-0e02b2c3d479",
            "ps.index": "1", "ps.shard_count": "3", "ps.epoch": "7",
            "ps.position": "9007199254740993", "ps.unix_ns": "1799999999123456789",
            "ps.history": "01234567-89ab-7cde-8f01-23456789abcd",
            "ps.job": "demo \"job\" ö"})
        parameters = json.loads(metadata["ps.parameters"])
        by_name = {entry["name"]: entry for entry in parameters}
        self.assertEqual(sorted(by_name), ["p0", "p1", "p2"])
        self.assertEqual(by_name["p2"]["version"], "12")
        self.assertEqual(by_name["p2"]["step"], "22")
        self.assertEqual(by_name["p2"]["id"], "2")
        self.assertEqual(base64.b64decode(by_name["p2"]["config"]), b"config")

    def test_every_checksum_is_that_of_the_documentation(self):
        content, length, metadata, tensors = self.written(7)
        stated = metadata["ps.header_crc32c"]
        head = content[:8 + length]
        at = head.index(stated.encode())
        self.assertEqual(at, 8 + len('{"__metadata__":{"ps.header_crc32c":"'))
        zeroed = head[:at] + b"00000000" + head[at + 8:]
        self.assertEqual("%08x" % crc32c(zeroed), stated)
        for entry in json.loads(metadata["ps.parameters"]):
            names = [entry["name"]] + ["ps.state/%d/%s" % (state, entry["name"])
                                       for state in range(len(entry["crc32c"]) - 1)]
            for name, checksum in zip(names, entry["crc32c"]):
                self.assertEqual("%08x" % crc32c(tensors[name][2]), checksum)

    def test_arrays_are_aligned_and_in_order(self):
        _, length, metadata, tensors = self.written(12)
        self.assertEqual((8 + length) % 64, 0)
        for name, (label, begin, _) in tensors.items():
            self.assertEqual(begin % WIDTHS[label], 0, name)
        entries = json.loads(metadata["ps.parameters"])
        order = [(-WIDTHS[tensors[entry["name"]][0]], entry["name"]) for entry in entries]
        self.assertEqual(order, sorted(order))


if __name__ == "__main__":
    WRITER = sys.argv.pop(1)
    unittest.main()
