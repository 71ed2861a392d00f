#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psckpt on the folder of a server with tables that was killed: rows are found by their keys in all
that it shows, writes and compares, wherever they lay."""

import glob
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
import unittest

import grpc

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Server, patiently, wait_until  # noqa: E402
from psckpt_run import (digest, psckpt, psckpt_json, read_safetensors,  # noqa: E402
                        write_safetensors)
from recover_world import flip, offset_of  # noqa: E402
from test_tables import WIDTH, Rows, adagrad, configuration  # noqa: E402

DIFFERENT = 1
DATA = 65
MASK = (1 << 64) - 1


def row_wise(config):
    adagrad(config)
    config.adagrad.row_wise = True


def crc32c(data):
    """As docs/checkpoint-format.md has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def hashed_shard(key, count):
    """As docs/wire.md has it, with nothing of ours: SplitMix64, and the high half of a product."""
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & MASK
    return ((key ^ (key >> 31)) * count) >> 64


class Killed(unittest.TestCase):
    """Tables that were pushed to, saved in between, and killed: the last has fewer rows than keys,
    and lets go of those that were pushed to longest ago."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = os.path.join(holder.name, "out")
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        dice = random.Random(3)
        self.keys = [dice.getrandbits(64) for _ in range(200)]
        self.tables = [Rows(self.server, "plain"), Rows(self.server, "steps", client=b"steps"),
                       Rows(self.server, "few", client=b"few")]
        self.tables[0].define(configuration())
        self.tables[1].define(configuration(row_wise))
        self.tables[2].define(configuration(adagrad, rows_max=64, full=1))
        self.push(dice)
        self.save()
        self.push(dice)
        self.values = [table.values(self.keys) for table in self.tables]
        self.server.process.kill()
        self.shard = os.path.join(self.server.data, "shard-0")

    def save(self):
        done = self.server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def push(self, dice):
        for _ in range(8):
            for table in self.tables:
                table.push([(key, [dice.uniform(-1, 1) for _ in range(WIDTH)])
                            for key in dice.choices(self.keys, k=40)], ack=2)

    def newest(self, folder):
        return sorted(glob.glob(os.path.join(folder, "shard-0", "*.safetensors")))[-1]

    def expect_served(self, folder):
        with Server(data=folder) as server:
            for table, values in zip(self.tables, self.values):
                table.server = server
                self.assertEqual(table.values(self.keys), values)

    def test_rows_and_widths_are_shown(self):
        psckpt("verify", self.server.data)
        rows = {row["name"]: row
                for row in psckpt_json("show", self.newest(self.server.data))["parameters"]}
        for name, state in (("plain", 0), ("steps", 4)):
            count = rows[name]["rows"]
            self.assertTrue(0 < count <= 200)
            self.assertEqual(rows[name]["shape"], [count, WIDTH])
            self.assertEqual(rows[name]["width"], WIDTH)
            self.assertEqual(rows[name]["bytes"], count * (WIDTH * 4 + state + 8 + 4))
        self.assertTrue(0 < rows["few"]["rows"] <= 64)
        self.assertIn(f"[{rows['steps']['rows']},{WIDTH}]",
                      psckpt("show", self.newest(self.server.data)))

    def test_a_repaired_folder_has_every_row(self):
        psckpt("repair", self.server.data, "--out", self.out)
        self.assertEqual(digest(self.out), digest(self.server.data))
        psckpt("diff", self.out, self.server.data)
        self.expect_served(self.out)

    def test_rows_that_must_go_are_the_same_whatever_order_they_came_in(self):
        psckpt("repair", self.server.data, "--out", self.out)
        self.server.start()
        with Server(data=self.out) as other:
            for server in (self.server, other):
                dice = random.Random(9)
                for table in self.tables:
                    table.server, table.sequence = server, 1000
                self.push(dice)
                server.process.kill()
            self.assertEqual(psckpt_json("diff", self.server.data, self.out), [])
            self.assertEqual(digest(self.server.data), digest(self.out))

    def test_a_state_of_the_past_is_that_of_its_position(self):
        end = psckpt_json("digest", self.server.data)["shards"][0]["position"]
        before = digest(self.server.data, "--to", str(end - 1))
        self.assertNotEqual(before, digest(self.server.data))
        psckpt("replay", self.server.data, "--to", str(end - 1), "--out", self.out)
        self.assertEqual(digest(self.out), before)
        psckpt("replay", self.server.data, "--to", str(end), "--out", self.out + "2")
        self.assertEqual(digest(self.out + "2"), digest(self.server.data))

    def test_a_server_that_goes_on_writes_the_same_rows_in_whatever_order(self):
        before = digest(self.server.data)
        self.server.start()
        self.save()
        self.server.process.kill()
        self.assertEqual(digest(self.server.data, "--no-journal"), before)

    def test_diff_says_which_keys_came_and_which_rows_changed(self):
        psckpt("repair", self.server.data, "--out", self.out)
        self.server.start()
        known, unknown = self.keys[0], 12345
        self.tables[0].push([(unknown, [1.0] * WIDTH)])
        self.tables[0].push([(known, [0.5] * WIDTH)])
        self.server.process.kill()
        changes = psckpt_json("diff", self.out, self.server.data, code=DIFFERENT)
        rows = next(change for change in changes if change["part"] == "rows")
        self.assertEqual({change["name"] for change in changes}, {"plain"})
        self.assertEqual((rows["rows_added"], rows["rows_removed"], rows["rows_changed"]),
                         (1, 0, 1))
        self.assertEqual(rows["first_key"], min(known, unknown))
        back = psckpt("diff", self.server.data, self.out, code=DIFFERENT)
        self.assertIn("0 rows added, 1 removed, 1 changed", back)

    def test_a_framework_reads_a_matrix_and_its_keys(self):
        psckpt("export", self.server.data, "--out", self.out)
        tensors = read_safetensors(os.path.join(self.out, "plain.safetensors"))
        keys, matrix = tensors["ps.keys/plain"], tensors["plain"]
        self.assertEqual(read_safetensors.shapes["plain"], [len(keys), WIDTH])
        self.assertEqual(keys, sorted(keys))
        rows = {key: matrix[i * WIDTH:(i + 1) * WIDTH] for i, key in enumerate(keys)}
        self.assertEqual([rows.get(key, [0.0] * WIDTH) for key in self.keys], self.values[0])
        psckpt("export", self.server.data, "--out", self.out + "2", "--format", "npy")
        self.assertEqual([name for name in sorted(os.listdir(self.out + "2")) if name != "w.npy"],
                         ["few.npy", "plain.npy", "ps.keys%2Ffew.npy", "ps.keys%2Fplain.npy",
                          "ps.keys%2Fsteps.npy", "steps.npy"])
        psckpt("export", self.server.data, "--out", self.out + "3", "--merge")
        merged = read_safetensors(os.path.join(self.out + "3", "merged.safetensors"))
        self.assertEqual(merged["plain"], matrix)
        self.assertEqual(merged["ps.keys/plain"], keys)

    def test_what_was_exported_makes_tables_again(self):
        psckpt("export", self.server.data, "--out", self.out, "--merge")
        merged = os.path.join(self.out, "merged.safetensors")
        psckpt("import", merged, "--optimizer", "adagrad", "--to", "3", "--out", self.out + "3")
        psckpt("export", self.out + "3", "--out", self.out + "4", "--merge")
        self.assertEqual(read_safetensors(os.path.join(self.out + "4", "merged.safetensors")),
                         read_safetensors(merged))
        psckpt("import", merged, "--optimizer", "sgd", "--rate", "0.5", "--out", self.out + "1")
        self.expect_served(self.out + "1")

    def test_a_table_without_rows_is_exported_and_made_again(self):
        plain, made = self.out + ".safetensors", self.out + "1"
        write_safetensors(plain, {"t": ("F32", [0, 4], []), "ps.keys/t": ("U64", [0], []),
                                  "w": ("F32", [2], [1.0, 2.0])})
        psckpt("import", plain, "--optimizer", "sgd", "--rate", "1", "--out", made)
        with Server(data=made) as server:
            table = Rows(server, "t")
            table.push([(7, [1.0] * 4)])
            self.assertEqual(table.values([7, 8]), [[-1.0] * 4, [0.0] * 4])
        psckpt("import", plain, "--to", "2", "--out", self.out + "2")
        psckpt("export", self.out + "2", "--out", self.out + "3", "--merge")
        merged = read_safetensors(os.path.join(self.out + "3", "merged.safetensors"))
        self.assertEqual((merged["t"], merged["ps.keys/t"]), ([], []))

    def import_fails(self, keys, shape, label="U64", name="ps.keys/t"):
        """Of a file with a matrix "t" of that shape and these keys; returns what was said."""
        matrix = struct.pack(f"<{shape[0] * shape[1]}f", *[0.0] * (shape[0] * shape[1]))
        packed = struct.pack(f"<{len(keys)}Q", *keys)
        header = json.dumps({
            "t": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(matrix)]},
            name: {"dtype": label, "shape": [len(keys)],
                   "data_offsets": [len(matrix), len(matrix) + len(packed)]}}).encode()
        path = self.out + ".safetensors"
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + matrix + packed)
        psckpt("import", path, "--out", self.out, code=DATA)
        self.assertFalse(os.path.exists(self.out))
        return psckpt.errors

    def test_keys_that_do_not_fit_their_matrix_make_no_table(self):
        self.assertIn("2 rows and 3 keys", self.import_fails([1, 2, 3], [2, 4]))
        self.assertIn("twice", self.import_fails([7, 7], [2, 4]))
        self.assertIn("there is no tensor u", self.import_fails([1, 2], [2, 4], name="ps.keys/u"))
        self.assertIn("1 to 4096 columns", self.import_fails([1], [1, 5000]))
        self.assertIn("1 to 4096 columns", self.import_fails([1, 2], [2, 0]))
        self.assertIn("tensor t has no element", self.import_fails([], [0, 4], name="x"))
        self.assertIn("U64 or I64", self.import_fails([1, 2], [2, 4], label="F64"))

    def test_a_table_whose_newest_keys_are_damaged_comes_from_the_checkpoint_before(self):
        self.server.start()
        self.save()
        self.server.process.kill()
        newest = self.newest(self.server.data)
        before = digest(self.server.data)
        flip(newest, offset_of(newest, "ps.keys/steps"))
        self.assertIn("ps.keys/steps", psckpt("verify", self.server.data, code=DATA))
        psckpt("salvage", self.server.data, "--out", self.out)
        self.assertIn("steps: taken from", psckpt.errors)
        self.assertEqual(digest(self.out), before)
        self.expect_served(self.out)

    def test_rows_go_where_clients_ask_for_them_under_another_number_of_shards(self):
        psckpt("reshard", self.server.data, "--to", "3", "--out", self.out)
        self.assertEqual(psckpt_json("diff", self.server.data, self.out), [])
        for i in range(3):
            plain = os.path.join(self.out, f"plain-{i}")
            psckpt("export", os.path.join(self.out, f"shard-{i}"), "--out", plain)
            keys = read_safetensors(os.path.join(plain, "plain.safetensors"))["ps.keys/plain"]
            self.assertGreater(len(keys), 20)
            for key in keys:
                self.assertEqual(hashed_shard(key, 3), i)
            shutil.rmtree(plain)
        psckpt("reshard", self.out, "--to", "1", "--out", self.out + "1")
        self.assertEqual(psckpt_json("diff", self.server.data, self.out + "1"), [])
        self.expect_served(self.out + "1")


class Counted(unittest.TestCase):
    """A table whose keys get their rows with the third push."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = os.path.join(holder.name, "out")
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        self.keys = [random.Random(3).getrandbits(64) for _ in range(1)] + list(range(299))
        self.table = Rows(self.server, "t")
        self.table.define(configuration(rate=1.0, admission=3))
        self.push(self.keys)
        self.push(self.keys[100:])
        self.save()
        self.push(self.keys[200:])
        self.server.process.kill()

    def save(self):
        done = self.server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def push(self, keys):
        self.table.push([(key, [-1.0] * WIDTH) for key in keys], ack=2)

    def expect_counts(self, server):
        """One push more makes rows of those that had two, and one more of all."""
        self.table = table = Rows(server, "t", client=b"again")
        self.assertEqual(table.values(self.keys), [[0.0] * WIDTH] * 200 + [[1.0] * WIDTH] * 100)
        self.push(self.keys)
        self.assertEqual(table.values(self.keys), [[0.0] * WIDTH] * 100 + [[1.0] * WIDTH] * 100 +
                         [[2.0] * WIDTH] * 100)
        self.push(self.keys)
        self.assertEqual(table.values(self.keys[:100]), [[1.0] * WIDTH] * 100)

    def test_what_was_counted_is_shown_and_digested(self):
        before = digest(self.server.data)
        newest = sorted(glob.glob(os.path.join(self.server.data, "shard-0", "*.safetensors")))[-1]
        self.assertEqual(psckpt_json("show", newest)["candidates"], [{"name": "t", "keys": 300}])
        self.assertIn("KEYS_WITHOUT_ROW", psckpt("show", newest))
        psckpt("verify", self.server.data)
        self.server.start()
        self.save()
        self.server.process.kill()
        self.assertEqual(digest(self.server.data, "--no-journal"), before)
        psckpt("repair", self.server.data, "--out", self.out)
        self.assertEqual(digest(self.out), before)
        self.assertEqual(psckpt_json("diff", self.out, self.server.data), [])
        self.assertEqual(psckpt.errors, "")
        with Server(data=self.out) as other:
            self.expect_counts(other)
        self.assertNotEqual(digest(self.out), before)

    def test_diff_says_which_keys_are_counted_otherwise(self):
        psckpt("repair", self.server.data, "--out", self.out)
        self.server.start()
        self.table = Rows(self.server, "t", client=b"again")
        # One of those with one push gets its second, one of those with two its row, one is new.
        one, row, new = sorted(self.keys[:100])[7], self.keys[150], 1 << 40
        self.push([one])
        self.push([row, new])
        self.server.process.kill()
        changes = psckpt_json("diff", self.out, self.server.data, code=DIFFERENT)
        parts = {change["part"]: change for change in changes}
        self.assertEqual(set(parts), {"rows", "candidates", "candidates clock"})
        counts = parts["candidates"]
        self.assertEqual((counts["keys_added"], counts["keys_removed"], counts["keys_changed"]),
                         (1, 1, 1))
        self.assertEqual(counts["first_key"], min(one, row, new))
        self.assertEqual(counts["largest_difference"], 1)
        clock = parts["candidates clock"]
        self.assertEqual((clock["keys_added"], clock["keys_removed"], clock["keys_changed"]),
                         (0, 0, 1))
        self.assertEqual(clock["first_key"], one)
        self.assertIn("t: candidates, version 3 and 5, 1 keys added, 1 removed, 1 changed",
                      psckpt("diff", self.out, self.server.data, code=DIFFERENT))

    def test_counts_go_with_their_keys_under_another_number_of_shards(self):
        before = digest(self.server.data)
        psckpt("reshard", self.server.data, "--to", "3", "--out", self.out)
        for i in range(3):
            newest = glob.glob(os.path.join(self.out, f"shard-{i}", "*.safetensors"))[0]
            keys = psckpt_json("show", newest)["candidates"][0]["keys"]
            self.assertEqual(keys, sum(hashed_shard(key, 3) == i for key in self.keys[:200]))
        psckpt("reshard", self.out, "--to", "1", "--out", self.out + "1")
        self.assertEqual(digest(self.out + "1"), before)
        with Server(data=self.out + "1") as other:
            self.expect_counts(other)

    def test_a_damaged_section_is_not_loaded_without_a_word(self):
        newest = sorted(glob.glob(os.path.join(self.server.data, "shard-0", "*.safetensors")))[-1]
        flip(newest, offset_of(newest, "ps.candidates"))
        self.assertIn("ps.candidates", psckpt("verify", self.server.data, code=DATA))
        self.server.start()
        self.expect_counts(self.server)  # by the journal, from the beginning


class Storm(unittest.TestCase):
    """Checkpoints are written all the time, and the server is killed in the midst of pushes."""

    def push_until_it_dies(self, rows, counts, acknowledged):
        """Every push adds 1 to each element of its keys. Returns the one that was not answered."""
        killer = threading.Event()

        def kill():
            killer.wait()
            self.server.process.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            for count in range(1, 100000):
                keys = self.dice.sample(range(0, 3000, 7), 300)
                request = rows.request([(key, [-1.0] * WIDTH) for key in keys], ack=2)
                try:
                    self.server.calls.call("SendGrad", request)
                except grpc.RpcError:
                    return request, keys
                for key in keys:
                    counts[key] = counts.get(key, 0) + 1
                if count == acknowledged:
                    killer.set()
        finally:
            killer.set()
            thread.join()
        self.fail("the server was killed, and answers")

    def test_each_push_counts_once_whenever_the_server_was_killed(self):
        self.dice = random.Random(11)
        self.server = Server("--checkpoint-journal-bytes", "1MiB", interval="100ms")
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()
        rows, counts = Rows(self.server, "sums"), {}
        rows.define(configuration(rate=1.0))
        for _ in range(4):
            request, keys = self.push_until_it_dies(rows, counts, self.dice.randrange(80, 250))
            psckpt("verify", self.server.data)
            self.server.start()
            # It may have been applied, and is not applied once more.
            self.server.calls.call("SendGrad", request)
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
            known = sorted(counts)
            self.assertEqual(rows.values(known),
                             [[float(counts[key])] * WIDTH for key in known])


class Ageing(unittest.TestCase):
    """A table whose rows go when they are an hour old, saved and pushed to, and killed."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.out = os.path.join(holder.name, "out")
        # It looks how old rows are when it keeps its lease alive: every two seconds.
        self.server = Server(ttl="6s")
        self.addCleanup(self.server.__exit__)
        patiently(self.server.make_ready)
        self.table = Rows(self.server, "t")
        patiently(lambda: self.table.define(configuration(expire_ms=3_600_000)))
        wait_until(self.has_aged, "the server has looked")
        self.push()
        self.server.process.kill()
        self.ages = self.ages_in(self.server.data)

    def push(self):
        patiently(lambda: self.table.push([(1, [1.0] * WIDTH)], ack=2))

    def has_aged(self):
        self.push()
        done = self.server.psctl("checkpoint")
        return done.returncode == 0 and self.ages_in(self.server.data) is not None

    def ages_in(self, folder, shard="shard-0"):
        newest = sorted(glob.glob(os.path.join(folder, shard, "*.safetensors")))[-1]
        rows = {row["name"]: row for row in psckpt_json("show", newest)["parameters"]}
        return rows["t"].get("ages")

    def test_a_state_that_is_written_anew_is_as_old(self):
        self.assertRegex(self.ages, r"^time( \d+ \d+)+$")
        end = psckpt_json("digest", self.server.data)["shards"][0]["position"]
        psckpt("repair", self.server.data, "--out", self.out)
        psckpt("replay", self.server.data, "--to", str(end), "--out", self.out + "2")
        psckpt("salvage", self.server.data, "--out", self.out + "3")
        for made in (self.out, self.out + "2", self.out + "3"):
            self.assertEqual(self.ages_in(made), self.ages)
            psckpt("verify", made)
        psckpt("diff", self.out + "2", self.server.data)

    def bend_ages(self, path, ages):
        """Writes other ages into the header, with the right checksum: as a faulty writer would."""
        with open(path, "rb") as file:
            data = bytearray(file.read())
        (length,) = struct.unpack_from("<Q", data)
        begin = data.index(self.ages.encode(), 8, 8 + length)
        data[begin:begin + len(self.ages)] = ages.ljust(len(self.ages)).encode()
        data[45:53] = b"0" * 8
        data[45:53] = b"%08x" % crc32c(data[:8 + length])
        with open(path, "wb") as file:
            file.write(data)

    def test_an_export_says_how_far_it_is(self):
        end = psckpt_json("digest", self.server.data)["shards"][0]["position"]
        self.assertIn(f"shard 0: as of position {end}\n",
                      psckpt("export", self.server.data, "--out", self.out))

    def test_ages_that_no_server_reads_are_named_by_verify_and_gone_after_repair(self):
        newest = sorted(glob.glob(os.path.join(self.server.data, "shard-0", "*.safetensors")))[-1]
        first = self.ages.split()[1]
        self.bend_ages(newest, f"time {first} x")
        why = "time: pair 1 has no version"
        self.assertIn(f"damaged   {newest}: ages of table t: {why}; a server loads its rows as new",
                      psckpt("verify", self.server.data, code=DATA))
        self.assertIn("psckpt repair", psckpt.errors)
        found = psckpt_json("verify", newest, code=DATA)
        self.assertEqual(found["damages"], [{"file": newest, "part": "ages", "parameter": "t",
                                             "reason": why}])
        psckpt("repair", self.server.data, "--out", self.out)
        psckpt("verify", self.out)
        self.assertIsNone(self.ages_in(self.out))
        self.server.start()  # as the page of the format says
        wait_until(lambda: self.table.values([1]), "the server has loaded it")

    def test_rows_of_another_number_of_shards_are_as_old(self):
        psckpt("reshard", self.server.data, "--to", "2", "--out", self.out)
        for shard in ("shard-0", "shard-1"):
            self.assertEqual(self.ages_in(self.out, shard), self.ages)
        self.assertEqual(psckpt_json("diff", self.server.data, self.out), [])
        psckpt("reshard", self.out, "--to", "1", "--out", self.out + "1")
        self.assertEqual(self.ages_in(self.out + "1"), self.ages)


if __name__ == "__main__":
    unittest.main(verbosity=2)
