#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psbench report: a page whose every figure was measured, with its pictures, or nothing at all."""

import os
import re
import signal
import subprocess
import unittest
import xml.etree.ElementTree

from test_psbench import (Folder, PROGRAM, clean_environment, processes_with, read, run,
                          wait_for_server)


class ReportTest(unittest.TestCase):
    def test_report_writes_a_page_whose_figures_are_numbers_and_its_pictures(self):
        with Folder() as folder, Folder() as work:
            done = run("report", "--quick", "--output", folder, "--dir", work, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(work), [])
            self.assertEqual(processes_with(work), [])
            self.assertIn(os.path.join(folder, "figures.md"), done.stdout)
            self.assertIn("13 of 13", done.stderr)
            page = read(os.path.join(folder, "figures.md"))
            pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
            self.assertEqual(sorted(os.listdir(folder)), sorted([*pictures, "figures.md"]))
            self.assertEqual(len(pictures), 14)
            for name in pictures:
                root = xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot()
                self.assertTrue(root.tag.endswith("svg"), name)
        self.assertRegex(page, r"Written by `psbench report` on \d{4}-\d\d-\d\d")
        self.assertIn("cores", page)
        self.assertIn("Made with `--quick`", page)
        self.look_at_page(page)

    def look_at_page(self, page):
        """Every line of the first table twice, every limit, and numbers where numbers belong."""
        first, machine, *sections = [self.table(part) for part in page.split("\n## ")[1:]]
        promises = [line[2] for line in first]
        self.assertEqual(promises, ["MEMORY", "LOGGED"] * 13 + ["LOGGED"])
        for line in first:
            self.assertRegex(line[0], r"^\d+ ([KM]iB|B)(, 1,000 parameters)?$")
            self.assertGreater(float(line[3]), 0)
            self.assertGreater(float(line[4]), 0)
            self.assertRegex(line[5], r"^([\d.]+ [um]s|-)$")
            self.assertRegex(line[6], r"^(-|-?[\d.]+(e-\d+)? [\w ]+)$")
        self.assertEqual(len(machine), 10)
        for line in machine:
            self.assertTrue("no direct writes" in line[2] or float(line[2]) > 0, line)
        self.assertEqual(len(sections), 13)
        for lines in sections:
            for line in lines:
                self.assertTrue(line[3] == "-" or float(line[3]) > 0, line)

    @staticmethod
    def table(part):
        """The cells of the lines of a Markdown table, without its heading."""
        lines = [line for line in part.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    def test_report_says_first_when_there_is_no_folder(self):
        done = run("report", "--quick", "--output", "/nowhere/docs")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/docs", done.stderr)
        self.assertNotIn("1 of 13", done.stderr)

    def test_report_with_a_server_that_ends_names_the_section_and_writes_nothing(self):
        with Folder() as folder:
            done = run("report", "--quick", "--output", folder, "--pserver", "/bin/false")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("A parameter of 4 KiB, pushed and pulled: the server ended", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_report_interrupted_leaves_nothing(self):
        with Folder() as folder, Folder() as work:
            child = subprocess.Popen([PROGRAM, "report", "--time", "30s", "--output", folder,
                                      "--dir", work], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env=clean_environment())
            wait_for_server(work)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(120), 128 + signal.SIGINT)
            self.assertEqual(os.listdir(work), [])
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(processes_with(work), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
