#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of psckpt on a folder whose content is known number by number (make_folder.c)."""

import glob
import os
import random
import shutil
import subprocess
import tempfile
import unittest

from psckpt_run import (digest, psckpt, psckpt_json, read_npy, read_safetensors, records_end,
                        write_safetensors)

USAGE, DATAERR, NOINPUT, CANTCREAT = 64, 65, 66, 73
SPLIT = ("--split-bytes", "32")  # "big" has 40 bytes, nothing else as many


def flip(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def names_of(folder):
    """The parameters of a shard, in the order in which make_folder pushes to them."""
    (path,) = glob.glob(os.path.join(folder, "*.safetensors"))
    rows = psckpt_json("show", path)["parameters"]
    order = {name: i for i, name in enumerate(["w0", "w1", "w2", "w3", "w4", "w5", "count"])}
    return sorted((row["name"] for row in rows), key=lambda name: order.get(name, 99))


def expected(folder, to):
    """Values after position `to`, of all parameters but those with momentum."""
    names = names_of(folder)
    result = {}
    for at, name in enumerate(names):
        pushes = sum(1 for p in range(to - 10) if p % len(names) == at)
        if not name.startswith("big"):
            result[name] = [i - pushes for i in range(2 if name == "count" else 4)]
    return result


class Folder(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.temp)
        self.data = os.path.join(self.temp, "data")
        subprocess.run([os.environ["MAKE_FOLDER"], self.data], check=True)
        self.shards = [os.path.join(self.data, f"shard-{i}") for i in range(2)]

    def path(self, name):
        return os.path.join(self.temp, name)

    def files(self, pattern, shard=0):
        return sorted(glob.glob(os.path.join(self.shards[shard], pattern)))

    def snapshot(self):
        """Every file below the folder, to see that nothing changed."""
        found = {}
        for path in glob.glob(os.path.join(self.data, "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
        return found

    def export(self, source, name, *flags):
        psckpt("export", source, "--out", self.path(name), "--merge", *flags)
        return read_safetensors(os.path.join(self.path(name), "merged.safetensors"))


class Looking(Folder):
    def test_list_names_checkpoints_and_segments(self):
        rows = psckpt_json("list", self.data)
        self.assertEqual(len(rows), 2)
        for row in rows:
            (checkpoint,) = row["checkpoints"]
            self.assertEqual((checkpoint["epoch"], checkpoint["position"], checkpoint["state"]),
                             (7, 10, "whole"))
            self.assertNotIn("published", checkpoint)
            segments = row["journal"]
            self.assertEqual([s["state"] for s in segments], ["whole"] * len(segments))
            self.assertEqual([s["first"] for s in segments if s["epoch"] == 8][0], 21)
            self.assertEqual(max(s["last"] for s in segments), 40)

    def test_the_table_says_the_same(self):
        text = psckpt("list", self.data)
        self.assertIn("checkpoint", text)
        self.assertIn(".journal", text)

    def test_show_has_facts_and_parameters(self):
        shown = psckpt_json("show", self.files("*.safetensors")[0])
        self.assertEqual((shown["index"], shown["shard_count"], shown["clients"]), (0, 2, 0))
        (big,) = [row for row in shown["parameters"] if row["name"] == "big#0/2"]
        self.assertEqual((big["rule"], big["states"], big["element_count"]), ("momentum", 1, 5))

    def test_show_counts_sessions_after_replay(self):
        psckpt("replay", self.shards[0], "--to", 30, "--out", self.path("new"))
        (path,) = glob.glob(self.path("new/shard-0/*"))
        shown = psckpt_json("show", path, "--sessions")
        self.assertEqual((shown["clients"], shown["requests"]), (1, 20))
        self.assertEqual(shown["sessions"][0]["highest_sequence"], 30)

    def test_help_and_man_name_every_command(self):
        for page in ("--help", "--man"):
            text = psckpt(page)
            for word in ("list", "verify", "reshard", "digest", "prune"):
                self.assertIn(word, text)

    def test_wrong_usage_is_64(self):
        for words in ((), ("list",), ("lost", self.data), ("replay", self.data, "--to", "x"),
                      ("reshard", self.data, "--to", "0", "--out", self.path("n")),
                      ("reshard", self.data, "--to", "2"), ("digest", self.data, "--to", "20"),
                      ("prune", self.data, "--keep", "1"), ("repair", self.data)):
            psckpt(*words, code=USAGE)
            self.assertNotEqual(psckpt.errors, "")

    def test_show_of_a_folder_says_how_to_name_a_file(self):
        psckpt("show", self.shards[0], code=USAGE)
        self.assertIn(f"psckpt list {self.shards[0]}", psckpt.errors)

    def test_what_is_not_there_is_66(self):
        for command in ("list", "verify", "show", "digest"):
            psckpt(command, self.path("none"), code=NOINPUT)
        os.mkdir(self.path("empty"))
        psckpt("list", self.path("empty"), code=NOINPUT)


    def test_a_file_that_cannot_be_read_does_not_hide_the_others(self):
        name = os.path.basename(self.files("*.safetensors")[0])
        os.mkdir(os.path.join(self.shards[0], name.replace("0000000000000007", "0" * 15 + "9")))
        rows = psckpt_json("list", self.data, code=NOINPUT)
        self.assertEqual([row["state"] for row in rows[0]["checkpoints"]], ["unreadable", "whole"])
        self.assertEqual(len(rows), 2)
        psckpt("verify", self.data, code=NOINPUT)


class Damage(Folder):
    def test_a_whole_folder_is_whole(self):
        found = psckpt_json("verify", self.data)
        self.assertEqual((found["damages"], found["damaged"]), ([], 0))

    def test_a_damaged_tensor_is_named_with_its_bytes(self):
        path = self.files("*.safetensors")[0]
        size = os.path.getsize(path)
        flip(path, size - 1)
        (damage,) = psckpt_json("verify", self.data, code=DATAERR)["damages"]
        self.assertEqual(damage["file"], path)
        self.assertLess(damage["begin"], size)
        self.assertEqual(damage["end"], size)
        self.assertIn("tensor", damage)
        # It was the only one of its shard, so that repair could not begin there.
        self.assertIn(f"psckpt salvage {self.data} --out NEWDIR", psckpt.errors)
        psckpt("verify", path, code=DATAERR)
        self.assertEqual(psckpt.errors, "")

    def test_a_damaged_record_is_named_with_offset_and_position(self):
        path = self.files("0000000000000008-*.journal")[0]
        flip(path, 400)
        found = psckpt_json("verify", self.data, code=DATAERR)["damages"]
        self.assertEqual(found[0]["file"], path)
        self.assertLessEqual(found[0]["offset"], 400)
        self.assertGreaterEqual(found[0]["position"], 21)

    def test_a_torn_end_is_listed_and_is_no_damage(self):
        path = self.files("0000000000000008-*.journal")[-1]
        os.truncate(path, records_end(path) - 5)
        psckpt("verify", self.data)
        row = psckpt_json("list", self.shards[0])[0]["journal"][-1]
        self.assertEqual((row["state"], row["last"]), ("torn", 39))
        self.assertGreater(row["torn_bytes"], 0)

    def test_bad_bytes_of_a_fenced_owner_are_no_damage(self):
        path = self.files("0000000000000007-*.journal")[-1]
        os.truncate(path, os.path.getsize(path) - 5)
        psckpt("verify", self.data)
        self.assertEqual(len(digest(self.data)), 64)

    def test_a_missing_segment_is_damage(self):
        os.remove(self.files("0000000000000007-*.journal")[0])
        psckpt("verify", self.data, code=DATAERR)
        psckpt("digest", self.data, code=DATAERR)

    def test_every_truncation_is_survived(self):
        path = self.files("*.safetensors")[0]
        for size in range(0, os.path.getsize(path), 41):
            shutil.copy(path, self.path("cut.safetensors"))
            os.truncate(self.path("cut.safetensors"), size)
            psckpt("verify", self.path("cut.safetensors"), code=DATAERR)

    def test_flipped_bits_of_any_file_never_give_another_state(self):
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print(f"seed {seed}")
        dice = random.Random(seed)
        whole = digest(self.data)
        prefixes = {digest(self.shards[0], "--to", p) for p in range(10, 41)}
        only = digest(self.shards[0])
        self.assertNotEqual(whole, only)
        paths = self.files("*")
        for _ in range(60):
            path = dice.choice(paths)
            offset, bit = dice.randrange(os.path.getsize(path)), dice.randrange(8)
            flip(path, offset, bit)
            self.look_at_damaged(prefixes)
            flip(path, offset, bit)
        self.assertEqual(digest(self.shards[0]), only)

    def look_at_damaged(self, prefixes):
        try:
            found = digest(self.shards[0])
        except AssertionError as failure:
            self.assertIn(f"exit {DATAERR}", str(failure))
            return
        self.assertIn(found, prefixes)


class Recovering(Folder):
    def test_replay_gives_the_state_at_any_position(self):
        for to in (10, 11, 20, 21, 33, 40):
            out = self.path(f"at-{to}")
            psckpt("replay", self.shards[0], "--to", to, "--out", out)
            values = self.export(out, f"values-{to}")
            for name, numbers in expected(self.shards[0], to).items():
                self.assertEqual(values[name], numbers, f"{name} at {to}")
            self.assertEqual(digest(out), digest(self.shards[0], "--to", to))

    def test_pushes_of_a_fenced_owner_are_never_taken(self):
        values = self.export(self.data, "values")
        for shard in self.shards:
            for name, numbers in expected(shard, 40).items():
                self.assertEqual(values[name], numbers)

    def test_replay_beyond_the_end_is_refused(self):
        psckpt("replay", self.shards[0], "--to", 41, "--out", self.path("x"), code=NOINPUT)
        psckpt("replay", self.shards[0], "--to", 9, "--out", self.path("x"), code=NOINPUT)
        self.assertFalse(os.path.exists(self.path("x")))

    def test_replay_twice_gives_the_same_bytes(self):
        files = []
        for name in ("a", "b"):
            psckpt("replay", self.shards[0], "--to", 25, "--out", self.path(name))
            (path,) = glob.glob(self.path(f"{name}/shard-0/*"))
            with open(path, "rb") as file:
                files.append((os.path.basename(path), file.read()))
        self.assertEqual(files[0], files[1])

    def test_nothing_is_written_into_a_folder_that_holds_something(self):
        psckpt("replay", self.shards[0], "--to", 20, "--out", self.data, code=CANTCREAT)
        psckpt("repair", self.data, "--out", self.data, code=CANTCREAT)

    def test_one_folder_in_use_keeps_every_shard_from_being_written(self):
        os.makedirs(self.path("new/shard-1/something"))
        psckpt("repair", self.data, "--out", self.path("new"), code=CANTCREAT)
        self.assertEqual(os.listdir(self.path("new")), ["shard-1"])

    def test_repair_of_a_whole_folder_leaves_nothing_out(self):
        before = self.snapshot()
        psckpt("repair", self.data, "--out", self.path("new"))
        self.assertNotIn("left out", psckpt.errors)
        self.assertEqual(digest(self.path("new")), digest(self.data))
        self.assertEqual(self.snapshot(), before)

    def test_repair_stops_before_a_damaged_record_and_says_so(self):
        path = self.files("0000000000000008-*.journal")[0]
        flip(path, 700)
        (damage,) = psckpt_json("verify", self.shards[0], code=DATAERR)["damages"]
        psckpt("digest", self.shards[0], code=DATAERR)
        before = self.snapshot()
        psckpt("repair", self.shards[0], "--out", self.path("new"))
        self.assertIn("left out: journal from the damage on", psckpt.errors)
        self.assertEqual(digest(self.path("new")),
                         digest(self.shards[0], "--to", damage["position"] - 1))
        self.assertEqual(self.snapshot(), before)

    def test_repair_passes_over_a_damaged_checkpoint(self):
        psckpt("replay", self.shards[0], "--to", 30, "--out", self.path("later"))
        (later,) = glob.glob(self.path("later/shard-0/*"))
        copy = shutil.copy(later, self.shards[0])
        flip(copy, os.path.getsize(copy) // 2)
        psckpt("repair", self.shards[0], "--out", self.path("new"))
        self.assertIn("left out: " + os.path.basename(copy), psckpt.errors)
        self.assertEqual(psckpt_json("digest", self.path("new"))["shards"][0]["position"], 40)

    def test_repair_without_a_whole_checkpoint_is_65(self):
        flip(self.files("*.safetensors")[0], 100)
        psckpt("repair", self.data, "--out", self.path("new"), code=DATAERR)
        self.assertFalse(os.path.exists(self.path("new")))

    def test_no_journal_means_the_checkpoint_alone(self):
        path = self.files("*.safetensors")[0]
        self.assertEqual(digest(self.shards[0], "--no-journal"), digest(path))
        self.assertNotEqual(digest(self.shards[0]), digest(path))

    def test_sessions_count_only_when_asked(self):
        psckpt("replay", self.shards[0], "--to", 10, "--out", self.path("new"))
        path = self.files("*.safetensors")[0]
        self.assertEqual(digest(self.path("new")), digest(path))
        self.assertNotEqual(digest(self.data), digest(self.data, "--sessions"))


class Comparing(Folder):
    def test_equal_states_do_not_differ(self):
        self.assertEqual(psckpt_json("diff", self.data, self.data), [])

    def test_a_later_state_differs_by_its_pushes(self):
        psckpt("replay", self.shards[0], "--to", 20, "--out", self.path("early"))
        rows = psckpt_json("diff", self.path("early"), self.shards[0], code=1)
        values = {row["name"]: row for row in rows if row["part"] == "values"}
        name, numbers = next(iter(expected(self.shards[0], 20).items()))
        after = expected(self.shards[0], 40)[name]
        self.assertEqual(values[name]["largest_difference"], numbers[0] - after[0])
        self.assertEqual(values[name]["first_element"], 0)

    def test_parameters_of_one_side_are_named(self):
        rows = psckpt_json("diff", self.shards[0], self.shards[1], code=1)
        self.assertEqual({row["change"] for row in rows}, {"added", "removed"})


class Exchanging(Folder):
    def test_ranges_are_joined(self):
        values = self.export(self.data, "out", "--no-journal")
        self.assertEqual(values["big"], list(range(10)))
        self.assertEqual(sorted(values), ["big", "count", "w0", "w1", "w2", "w3", "w4", "w5"])

    def test_npy_holds_the_same_numbers(self):
        merged = self.export(self.data, "merged")
        psckpt("export", self.data, "--out", self.path("npy"), "--format", "npy")
        self.assertEqual(len(os.listdir(self.path("npy"))), len(merged))
        for name, numbers in merged.items():
            self.assertEqual(read_npy(self.path(f"npy/{name}.npy")), numbers)

    def test_one_file_per_parameter(self):
        merged = self.export(self.data, "merged")
        psckpt("export", self.data, "--out", self.path("files"))
        for name, numbers in merged.items():
            self.assertEqual(read_safetensors(self.path(f"files/{name}.safetensors")),
                             {name: numbers})

    def test_export_overwrites_nothing(self):
        self.export(self.data, "out")
        psckpt("export", self.data, "--out", self.path("out"), "--merge", code=CANTCREAT)

    def test_a_missing_shard_is_named(self):
        shutil.rmtree(self.shards[1])
        os.rename(self.shards[0], self.path("shard-0"))
        os.mkdir(self.path("other"))
        subprocess.run([os.environ["MAKE_FOLDER"], self.path("other"), "job"], check=True)
        psckpt("reshard", self.path("shard-0"), "--to", 1, "--out", self.path("n"), code=USAGE)
        self.assertIn("shard 1 of 2 is missing", psckpt.errors)

    def test_import_then_export_gives_the_file_back(self):
        numbers = [float(i) for i in range(12)]
        shapes = {"m/x": [3, 4], "n": [], "z": [2]}
        write_safetensors(self.path("in.safetensors"),
                          {"m/x": ("F32", [3, 4], numbers), "n": ("F64", [], [0.5]),
                           "z": ("F32", [2], [1.0, -1.0])})
        psckpt("import", self.path("in.safetensors"), "--to", 3, "--optimizer", "adam", *SPLIT,
               "--out", self.path("new"))
        psckpt("verify", self.path("new"))
        values = self.export(self.path("new"), "out")
        self.assertEqual(values, {"m/x": numbers, "n": [0.5], "z": [1.0, -1.0]})
        self.assertEqual(read_safetensors.shapes, shapes)
        psckpt("export", self.path("new"), "--out", self.path("npy"), "--format", "npy")
        read_npy(self.path("npy/m%2Fx.npy"))
        self.assertEqual(read_npy.shape, [3, 4])
        shown = [row for path in glob.glob(self.path("new/*/*.safetensors"))
                 for row in psckpt_json("show", path)["parameters"]]
        self.assertEqual({row["states"] for row in shown}, {2})
        self.assertEqual({row["name"]: row["shape"] for row in shown},
                         {f"m/x#{k}/3": [3, 4] for k in range(3)} | {"n": [], "z": [2]})
        psckpt("reshard", self.path("new"), "--to", 1, "--out", self.path("one"))
        self.assertEqual(self.export(self.path("one"), "again"), values)
        self.assertEqual(read_safetensors.shapes, shapes)

    def test_what_no_parameter_can_be_is_not_imported(self):
        for tensors in ({"h": ("F8_E4M3", [2], [0])}, {"e": ("F32", [0], [])},
                        {"w#0/2": ("F32", [1], [0.0])}, {"r": ("F32", [1] * 17, [0.0])},
                        {"o": ("F32", [2 ** 33, 2 ** 33], [0.0])}):
            write_safetensors(self.path("in.safetensors"), tensors)
            with self.assertRaisesRegex(AssertionError, "exit (64|65)"):
                psckpt("import", self.path("in.safetensors"), "--optimizer", "adam", "--out",
                       self.path("new"), code=99)
            self.assertFalse(os.path.exists(self.path("new")))

    def test_a_damaged_plain_file_is_refused(self):
        path = self.path("in.safetensors")
        write_safetensors(path, {"w": ("F32", [2], [1.0, 2.0])})
        with open(path, "rb") as file:
            whole = file.read()
        for size in range(len(whole)):
            with open(path, "wb") as file:
                file.write(whole[:size])
            psckpt("import", path, "--out", self.path("new"), code=DATAERR)


class Resharding(Folder):
    def there_and_back(self, source, name, *flags):
        psckpt("reshard", source, "--to", 3, *SPLIT, *flags, "--out", self.path(name + "-3"))
        psckpt("reshard", self.path(name + "-3"), "--to", 2, *SPLIT, "--out", self.path(name))
        return digest(self.path(name))

    def test_two_to_three_to_two_is_the_same_state(self):
        checkpoint = digest(self.data, "--no-journal")
        self.assertEqual(self.there_and_back(self.data, "a", "--no-journal"), checkpoint)
        self.assertNotEqual(digest(self.path("a-3")), checkpoint)

    def test_ranges_of_different_age_get_one_version_and_keep_it(self):
        psckpt("reshard", self.data, "--to", 2, *SPLIT, "--out", self.path("even"))
        self.assertIn("some ranges are newer", psckpt.errors)
        even = digest(self.path("even"))
        self.assertNotEqual(even, digest(self.data))
        self.assertEqual(self.there_and_back(self.path("even"), "a"), even)
        self.assertEqual(psckpt_json("diff", self.data, self.path("a-3")), [])

    def test_every_shard_holds_what_clients_look_for_there(self):
        psckpt("reshard", self.data, "--to", 3, *SPLIT, "--out", self.path("three"))
        for index in range(3):
            (path,) = glob.glob(self.path(f"three/shard-{index}/*"))
            for row in psckpt_json("show", path)["parameters"]:
                self.assertEqual(self.shard_of(row["name"], 3), index)

    @staticmethod
    def shard_of(name, count):
        if "#" in name:
            return int(name.split("#")[1].split("/")[0])
        value = 2166136261
        for byte in name.encode():
            value = (value ^ byte) * 16777619 % (1 << 32)
        return value % count

    def test_sessions_are_ended_so_that_no_old_request_is_taken(self):
        psckpt("reshard", self.data, "--to", 3, *SPLIT, "--out", self.path("three"))
        for path in glob.glob(self.path("three/*/*.safetensors")):
            shown = psckpt_json("show", path, "--sessions")
            (client,) = shown["sessions"]
            self.assertEqual((client["client"], client["session"], client["remembered"]),
                             ("trainer", 6, 0))
            self.assertEqual(shown["position"], 80)

    def test_one_shard_holds_everything_whole(self):
        psckpt("reshard", self.data, "--to", 1, "--out", self.path("one"))
        self.assertEqual(self.export(self.path("one"), "a"), self.export(self.data, "b"))


class Jobs(Folder):
    def test_a_job_keeps_its_folder_and_its_name(self):
        subprocess.run([os.environ["MAKE_FOLDER"], self.path("jobs"), "blue"], check=True)
        psckpt("reshard", self.path("jobs"), "--to", 1, "--out", self.path("new"))
        (path,) = glob.glob(self.path("new/blue/shard-0/*"))
        self.assertEqual(psckpt_json("show", path)["job"], "blue")
        self.assertEqual(digest(self.path("jobs")), digest(self.data))

    def test_two_jobs_are_not_mixed(self):
        subprocess.run([os.environ["MAKE_FOLDER"], self.data, "blue"], check=True)
        psckpt("reshard", self.data, "--to", 1, "--out", self.path("new"), code=USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=1)
