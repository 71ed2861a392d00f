# SPDX-License-Identifier: Apache-2.0
"""deploy/systemd/pserver.service by systemd's own checkers, without a running systemd.

usage: test_service_unit.py FOLDER-OF-THE-REPOSITORY
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
UNIT = REPOSITORY / "deploy" / "systemd" / "pserver.service"
# Tenths of the exposure level that systemd-analyze computes; 11 when this was written.
EXPOSURE_MAX = 15


@unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd-analyze is not installed")
class ServiceUnit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def analyze(self, text, *arguments):
        """Runs a checker on a unit of this text; the program itself need not be installed."""
        path = pathlib.Path(self.folder.name) / "pserver.service"
        path.write_text(text.replace("/usr/bin/pserver", "/usr/bin/true"), encoding="utf-8")
        return subprocess.run(["systemd-analyze", *arguments, str(path)], capture_output=True,
                              text=True, timeout=60, check=False)

    def test_systemd_has_nothing_to_say_about_the_unit(self):
        result = self.analyze(UNIT.read_text(encoding="utf-8"), "verify", "--man=no")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_misspelt_setting_would_be_noticed(self):
        text = UNIT.read_text(encoding="utf-8").replace("WatchdogSec=", "WatchdogSecs=")
        result = self.analyze(text, "verify", "--man=no")
        self.assertIn("WatchdogSecs", result.stderr)

    def test_the_service_can_reach_little_of_the_machine(self):
        result = self.analyze(UNIT.read_text(encoding="utf-8"), "security", "--offline=true",
                              "--threshold=%d" % EXPOSURE_MAX, "--no-pager")
        self.assertEqual(result.returncode, 0, result.stdout[-2000:])

    def test_a_service_without_walls_would_be_noticed(self):
        text = "[Service]\nExecStart=/usr/bin/pserver\n"
        result = self.analyze(text, "security", "--offline=true",
                              "--threshold=%d" % EXPOSURE_MAX, "--no-pager")
        self.assertNotEqual(result.returncode, 0)

    def test_the_server_says_when_it_is_ready_and_alive(self):
        lines = UNIT.read_text(encoding="utf-8").splitlines()
        self.assertIn("Type=notify", lines)
        self.assertTrue(any(line.startswith("WatchdogSec=") for line in lines))


if __name__ == "__main__":
    unittest.main()
