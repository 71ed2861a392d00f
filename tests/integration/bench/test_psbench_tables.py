#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psbench table with tiny sizes: beside plain arrays, grown, saved, swept, limited, asked for."""

import unittest

from test_psbench import Measuring, run


class TablesTest(Measuring):
    def test_a_table_stands_beside_plain_arrays_and_has_their_bits(self):
        document = self.measure("table", "--time", "20ms", "--repeat", "2", "--rows", "20000")
        for width in (1, 16, 64):
            for keys in ("random", "zipf"):
                for name in (f"get_{width}_{keys}", f"add_sgd_{width}_{keys}",
                             f"add_adagrad_{width}_{keys}", f"add_ftrl_{width}_{keys}"):
                    self.assertIn("plain_array", self.row(document, name)["ratios"])
            for name in ("remote_add", "remote_add_logged", "remote_get"):
                self.assertIn("million_keys_per_second",
                              self.row(document, f"{name}_{width}")["details"])
        growth = self.row(document, "growth_16")["details"]
        self.assertEqual(growth["rows"], 40000)
        self.witness_was_there(growth)
        for name in ("push_beside_saving_16", "push_beside_saving_again_16"):
            saving = self.row(document, name)["details"]
            self.assertGreater(saving["file_mib"], 2)
            self.witness_was_there(saving)
        walk = self.row(document, "push_beside_walk_16")["details"]
        self.assertEqual((walk["pieces"], walk["rows_gone"]), (0, 0))
        sweep = self.row(document, "push_beside_sweep_16")["details"]
        self.assertTrue(0 < sweep["rows_gone"] <= sweep["pieces"] * 512)
        limit = self.row(document, "push_at_lower_limit_16")["details"]
        self.assertGreater(limit["pushes"], 0)
        self.assertLessEqual(limit["rows_left"], 20000)

    def witness_was_there(self, details):
        """Turns were taken, and no push but a disturbed one is left out of the longest."""
        self.assertGreater(details["witness_longest_us"], 0)
        self.assertLessEqual(details["undisturbed_longest_us"], details["longest_us"] + 1)
        if details["disturbed_pushes"] == 0:
            self.assertAlmostEqual(details["undisturbed_longest_us"], details["longest_us"], -2)

    def test_a_table_of_one_width_and_what_is_none(self):
        document = self.measure("table", "--time", "20ms", "--repeat", "1", "--rows", "1000",
                                "--width", "1", "--ack", "memory")
        names = [row["name"] for row in document["rows"]]
        self.assertLessEqual({"get_1_random", "remote_add_1", "remote_get_1"}, set(names))
        self.assertNotIn("remote_add_logged_1", names)
        self.assertFalse([name for name in names if "_16" in name or "_64" in name])
        for words in (("--rows", "5"), ("--width", "3"), ("--keys", "0"), ("--outstanding", "65")):
            done = run("table", *words)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(words[0], done.stderr)

    def test_parts_alone_have_their_rows_and_no_others(self):
        for part, begins in (("growth", ("growth_16",)), ("saving", ("push_beside_saving",)),
                             ("arrays", ("get_16", "add_"))):
            document = self.measure("table", "--part", part, "--time", "20ms", "--repeat", "1",
                                    "--rows", "100000", "--width", "16")
            names = [row["name"] for row in document["rows"]]
            self.assertTrue(names and all(name.startswith(begins) for name in names), names)

    def test_a_clients_part_alone_with_calls_of_a_size_and_several_in_flight(self):
        document = self.measure("table", "--part", "remote", "--time", "20ms", "--repeat", "1",
                                "--rows", "2000000", "--width", "1", "--keys", "1000",
                                "--outstanding", "2", "--transport", "auto", "--ack", "memory")
        self.assertEqual([row["name"] for row in document["rows"]],
                         ["remote_add_1", "remote_get_1"])
        for row in document["rows"]:
            self.assertEqual((row["outstanding"], row["bytes"]), (2, 12000))
            # Figures of another workload stand beside none but that workload.
            self.assertEqual(list(row["details"]), ["million_keys_per_second"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
