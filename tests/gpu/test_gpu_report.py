#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of gpu_report.py on rows made up here: bytes, medians, marks, the exit status."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_report as report  # noqa: E402

GIBIBYTE = 1 << 30
STATES = {name: states for name, states, _, _ in report.RULES}


def rule_row(rule, type_, share, size=GIBIBYTE, encoding="native", more=0, **other):
    """A row whose rate is this share of a copy that moves 3e12 bytes a second."""
    width = int(type_[1:]) // 8
    row = {"row": "rule", "rule": rule, "type": type_, "encoding": encoding,
           "states": STATES[rule], "elements": size // width + more, "element_bytes": width} | other
    row["seconds"] = [report.traffic(row) / (3e12 * share)] * 3
    return row


def good_rows():
    """A run in which every mark is made."""
    rows = [{"row": "device", "driver": "cuda", "name": "a card"},
            {"row": "copy", "what": "on_device", "size": GIBIBYTE,
             "seconds": [2 * GIBIBYTE / 3e12]},
            {"row": "copy", "what": "to_device", "size": 1 << 28, "seconds": [(1 << 28) / 50e9]}]
    rows += [{"row": "copy", "what": "to_host", "size": 1 << 28, "seconds": [(1 << 28) / 50e9]},
             {"row": "mixed", "what": "pull", "beside": "nothing", "size": 1 << 28,
              "load_bytes_per_second": 0, "seconds": [(1 << 28) / 49e9]},
             {"row": "shared", "what": "push", "size": GIBIBYTE, "seconds": [2.5e-3]},
             {"row": "many", "tensors": 1000, "size": 16384, "kernels": 4, "copies": 8,
              "seconds": [1e-3]}]
    rows += [rule_row(rule, type_, 0.97) for rule, type_ in report.PAIRS]
    rows += [rule_row("adamw", "f32", 0.97)]
    rows += [rule_row("sgd", type_, 0.97, rounding="stochastic")
             for type_ in ("i32", "u32", "i64", "u64")]
    rows += [rule_row("adamw", "f32", 0.97, encoding=encoding)
             for encoding in ("bfloat16", "float16", "int8")]
    rows += [rule_row("adamw", "f32", 0.97, encoding="top_k", kept=1 << 20)]
    rows += [{"row": "torch", "optimizer": "AdamW", "type": "f32", "elements": GIBIBYTE // 4,
              "seconds": [3.0e-3]},
             {"row": "small", "clock": "wall", "tensors": 1000, "size": 16384, "launches": 1,
              "seconds": [100e-6]},
             {"row": "torch_small", "tensors": 1000, "seconds": [900e-6]},
             {"row": "ring", "encoding": "native", "threads": 8, "elements": 1 << 24,
              "bytes": 1 << 32, "pushes": 64, "seconds": [(1 << 32) / 48e9]}]
    rows += [{"row": "check", "name": name, "status": "passed"} for name in report.CHECKS]
    return rows


def without(rows, kind, **wanted):
    gone = report.of_kind(rows, kind, **wanted)
    return [row for row in rows if row not in gone]


def states_of(rows):
    return [it["state"] for it in report.judge(rows)]


class Arithmetic(unittest.TestCase):
    def test_the_median_is_the_middle_or_the_mean_of_two(self):
        self.assertEqual(report.median([3, 1, 2]), 2)
        self.assertEqual(report.median([4, 1, 2, 3]), 2.5)
        self.assertEqual(report.median([7]), 7)

    def test_a_rule_moves_gradient_values_and_states(self):
        words = {"assign": 2, "sgd": 3, "add": 3, "momentum": 5, "adagrad": 5, "adam": 7, "ftrl": 7}
        for rule, expected in words.items():
            for type_ in ("f32", "f64"):
                row = rule_row(rule, type_, 1, size=1 << 20)
                self.assertEqual(report.traffic(row), expected << 20, rule)

    def test_narrow_gradients_count_as_they_are_sent(self):
        row = rule_row("adamw", "f32", 1, size=4 * 1000, encoding="bfloat16")
        self.assertEqual(report.traffic(row), 1000 * (2 + 24))
        row["encoding"] = "int8"
        self.assertEqual(report.traffic(row), 1000 * (1 + 24) + 4 * 4)

    def test_a_copy_on_the_device_counts_both_ways_and_over_the_bus_once(self):
        copy = {"row": "copy", "what": "on_device", "size": 100, "seconds": [2.0]}
        self.assertEqual(report.rate(copy), 100)
        copy["what"] = "to_device"
        self.assertEqual(report.rate(copy), 50)

    def test_the_best_grid_is_shown_beside_the_one_that_is_chosen(self):
        rows = [{"row": "grid", "rule": "sgd", "type": "f32", "encoding": "native",
                 "blocks_each": each, "seconds": [time]}
                for each, time in ((0, 2e-3), (4, 3e-3), (8, 1e-3), (16, 2.5e-3))]
        self.assertEqual(report.grid_lines(rows),
                         ["grid sgd f32 native: best 8 blocks for each multiprocessor, 1.000 ms; "
                          "its own choice 2.000 ms"])
        self.assertEqual(report.grid_lines([]), [])

    def test_noise_is_the_spread_of_the_row_measured_twice_and_bounded(self):
        rows = [rule_row("adamw", "f32", 0.9), rule_row("adamw", "f32", 0.9)]
        rows[1]["seconds"] = [rows[0]["seconds"][0] * 1.004]
        self.assertAlmostEqual(report.noise(rows), 0.004)
        rows[1]["seconds"] = [rows[0]["seconds"][0] * 1.5]
        self.assertEqual(report.noise(rows), report.NOISE_MAX)
        self.assertEqual(report.noise(rows[:1]), 0)


class Marks(unittest.TestCase):
    def missed(self, rows, expected):
        marks = report.judge(rows)
        found = [it["mark"] for it in marks if it["state"] == report.MISSED]
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])
        self.assertEqual(report.exit_status(marks), 1)

    def test_a_run_in_which_all_is_well_makes_every_mark(self):
        marks = report.judge(good_rows())
        self.assertEqual({it["state"] for it in marks}, {report.MADE}, marks)
        self.assertEqual(report.exit_status(marks), 0)

    def test_one_rule_below_its_share_misses_the_mark(self):
        self.missed(good_rows() + [rule_row("max", "u64", 0.949, size=1 << 26)], "dense rule")

    def test_a_rule_just_at_its_share_makes_it(self):
        rows = good_rows() + [rule_row("max", "u64", 0.9501, size=1 << 26)]
        self.assertNotIn(report.MISSED, states_of(rows))

    def test_small_parameters_are_not_judged_by_bandwidth(self):
        rows = good_rows() + [rule_row("max", "u64", 0.5, size=1 << 25)]
        self.assertNotIn(report.MISSED, states_of(rows))

    def test_a_rule_that_was_not_measured_misses_the_mark(self):
        self.missed(without(good_rows(), "rule", rule="ftrl", type="f64"), "dense rule")

    def test_without_the_copy_nothing_is_as_fast(self):
        marks = report.judge(without(good_rows(), "copy", what="on_device"))
        found = [it["mark"] for it in marks if it["state"] == report.MISSED]
        self.assertEqual(len(found), 2, found)
        self.assertIn("dense rule", found[0])
        self.assertIn("lists", found[1])

    def test_a_copy_of_the_same_size_is_what_counts(self):
        small = {"row": "copy", "what": "on_device", "size": 1 << 26,
                 "seconds": [2 * (1 << 26) / 2.7e12]}
        rows = good_rows() + [small, rule_row("max", "u64", 0.87, size=1 << 26)]
        self.assertNotIn(report.MISSED, states_of(rows))
        self.missed(rows + [rule_row("max", "u64", 0.85, size=1 << 26)], "dense rule")

    def test_chance_narrow_gradients_and_lists_have_a_mark_of_their_own(self):
        for other in ({"rounding": "stochastic", "rule": "sgd", "type_": "i32"},
                      {"encoding": "int8", "rule": "adamw", "type_": "f32"},
                      {"encoding": "top_k", "kept": 1 << 20, "rule": "adamw", "type_": "f32"}):
            self.missed(good_rows() + [rule_row(share=0.9, **other)], "lists")
        self.missed(without(good_rows(), "rule", encoding="top_k"), "lists")
        self.missed(without(good_rows(), "rule", type="u64", rounding="stochastic"), "lists")

    def test_a_push_of_another_process_that_copies_misses_the_mark(self):
        rows = without(good_rows(), "shared", what="push")
        rows.append({"row": "shared", "what": "push", "size": GIBIBYTE, "seconds": [3.3e-3]})
        self.missed(rows, "of another process")
        rows.pop()
        self.missed(rows, "of another process")
        rows.append({"row": "absent", "what": "shared", "why": "no handles here"})
        self.assertEqual(report.judge_shared(rows)["state"], report.OPEN)

    def test_slow_pulls_miss_the_mark(self):
        rows = good_rows()
        report.of_kind(rows, "mixed")[0]["seconds"] = [(1 << 28) / 47e9]
        self.missed(rows, "pull")

    def test_slower_than_torch_misses_the_mark(self):
        rows = good_rows()
        report.of_kind(rows, "torch")[0]["seconds"] = [2.5e-3]
        self.missed(rows, "AdamW")

    def test_many_small_ones_at_more_than_half_of_torch_miss_the_mark(self):
        rows = good_rows()
        report.of_kind(rows, "torch_small")[0]["seconds"] = [199e-6]
        self.missed(rows, "1,000 tensors")

    def test_small_ones_in_several_launches_do_not_count(self):
        rows = good_rows()
        report.of_kind(rows, "small")[0]["launches"] = 2
        self.missed(rows, "1,000 tensors")

    def test_a_slow_ring_misses_the_mark(self):
        rows = good_rows()
        report.of_kind(rows, "ring")[0]["seconds"] = [(1 << 32) / 47.4e9]
        self.missed(rows, "ring")

    def test_a_failed_check_and_one_that_was_not_run_miss_theirs(self):
        for name in report.CHECKS:
            self.missed(without(good_rows(), "check", name=name), name)
            rows = good_rows()
            report.of_kind(rows, "check", name=name)[0]["status"] = "failed"
            self.missed(rows, name)

    def test_without_torch_nothing_is_passed_and_nothing_missed(self):
        rows = without(without(good_rows(), "torch"), "torch_small")
        rows += [{"row": "absent", "what": "torch", "why": "no torch here"}]
        self.assertEqual(states_of(rows).count(report.OPEN), 2)
        self.assertNotIn(report.MISSED, states_of(rows))

    def test_torch_that_said_nothing_at_all_is_a_miss(self):
        rows = without(without(good_rows(), "torch"), "torch_small")
        self.assertEqual(states_of(rows).count(report.MISSED), 2)

    def test_a_tool_that_is_not_there_is_not_compared(self):
        rows = good_rows()
        report.of_kind(rows, "check", name="memcheck")[0]["status"] = "absent"
        self.assertEqual(states_of(rows).count(report.OPEN), 1)
        self.assertNotIn(report.MISSED, states_of(rows))

    def test_times_of_the_emulator_are_not_judged(self):
        rows = good_rows() + [{"row": "device", "driver": "emu"}]
        self.assertEqual(states_of(rows).count(report.OPEN), 7)

    def test_no_rows_at_all_miss_every_mark(self):
        self.assertEqual(set(states_of([])), {report.MISSED})


class Program(unittest.TestCase):
    def run_report(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "bench.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            ran = subprocess.run([sys.executable, report.__file__, folder], capture_output=True,
                                 text=True, check=False)
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
                result = json.load(file)
            with open(os.path.join(folder, "results.svg"), encoding="utf-8") as file:
                svg = file.read()
        return ran, result, svg

    def test_it_ends_with_0_writes_json_and_a_picture(self):
        ran, result, svg = self.run_report(good_rows())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("adamw     f32", ran.stdout)
        self.assertEqual(result["facts"]["name"], "a card")
        self.assertEqual(svg.count("<rect"), len(report.PAIRS))

    def test_it_ends_with_1_when_a_mark_is_missed(self):
        ran, result, _ = self.run_report(good_rows() + [rule_row("sgd", "i32", 0.5)])
        self.assertEqual(ran.returncode, 1)
        self.assertIn("MISSED", ran.stdout)
        self.assertIn(report.MISSED, [it["state"] for it in result["marks"]])


if __name__ == "__main__":
    unittest.main()
