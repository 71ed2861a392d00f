# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md and README.md, followed literally: every command but those that install and
build, in an empty folder, on free ports. tests/integration/image runs those, too."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(REPOSITORY, "tests", "integration", "cluster"))

from cluster import BIN, PATIENCE, free_port  # noqa: E402
from page_commands import commands  # noqa: E402


class Pages(unittest.TestCase):
    def follow(self, page):
        """What the page's commands print, with this build, free ports and a folder of their own."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        script = commands(os.path.join(REPOSITORY, page))
        script = re.sub(r"^(\./deploy|cmake).*$", "", script, flags=re.MULTILINE)
        script = script.replace("$PWD/build/release", os.path.dirname(BIN))
        script = script.replace("/tmp/pserver", os.path.join(folder, "data"))
        for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script))):
            script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, timeout=2 * PATIENCE, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"})
        print(done.stdout, done.stderr)
        self.assertEqual(done.returncode, 0)
        return done.stdout

    def test_the_tutorial_ends_with_a_trained_model(self):
        shown = self.follow("docs/tutorial.md")
        self.assertGreater(float(re.search(r"([\d.]+) % of 5000 rows", shown).group(1)), 80)

    def test_the_readme_trains_and_shows_a_value(self):
        shown = self.follow("README.md")
        self.assertIn("{'w': 1}", shown)


if __name__ == "__main__":
    unittest.main(verbosity=2)
