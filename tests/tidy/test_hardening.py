# SPDX-License-Identifier: Apache-2.0
"""The programs and the library as they were built: what makes a fault of memory harder to use is
on.

    test_hardening.py FILE...     looks with readelf, which comes with the compiler
"""

import os
import platform
import subprocess
import sys
import unittest

FILES = []


def readelf(option, file):
    return subprocess.run(["readelf", "-W", option, file], check=True, capture_output=True,
                          text=True).stdout


class Hardening(unittest.TestCase):
    def each(self, option):
        for file in FILES:
            with self.subTest(os.path.basename(file)):
                yield readelf(option, file)

    def test_they_may_lie_at_any_address(self):
        for header in self.each("--file-header"):
            self.assertRegex(header, r"Type: +DYN ")

    def test_the_linkers_tables_are_read_only(self):
        """Full RELRO: the segment, and everything bound at the start."""
        for segments in self.each("--program-headers"):
            self.assertIn("GNU_RELRO", segments)
        for dynamic in self.each("--dynamic"):
            self.assertRegex(dynamic, r"\((FLAGS|FLAGS_1)\).*\b(BIND_NOW|NOW)\b")

    def test_no_stack_is_executable(self):
        for segments in self.each("--program-headers"):
            stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
            self.assertIn(" RW ", stack)

    @unittest.skipUnless(platform.machine() == "x86_64", "only this processor marks targets")
    def test_targets_of_jumps_are_marked(self):
        """Each function begins with endbr64. The note that says so of a whole file is only there
        where the C library's own startup files have it, and Debian's have not."""
        for file in FILES:
            with self.subTest(os.path.basename(file)), open(file, "rb") as program:
                self.assertGreater(program.read().count(b"\xf3\x0f\x1e\xfa"), 100)


if __name__ == "__main__":
    FILES = [os.path.realpath(file) for file in sys.argv[1:]]
    assert FILES, "which files?"
    unittest.main(argv=sys.argv[:1], verbosity=2)
