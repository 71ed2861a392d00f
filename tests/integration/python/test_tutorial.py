# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, followed literally: every command of it, in an empty folder, on free ports."""

import os
import re
import subprocess
import sys
import tempfile

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(REPOSITORY, "tests", "integration", "cluster"))

from cluster import BIN, PATIENCE, free_port  # noqa: E402

PAGE = os.path.join(REPOSITORY, "docs", "tutorial.md")


def commands():
    """The page's commands as one script, its ports replaced by free ones."""
    with open(PAGE, encoding="utf-8") as file:
        blocks = re.findall(r"^```bash\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
    script = "\n".join(blocks)
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script))):
        script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}")
    # A shell that is typed into stops at nothing; here any command that fails ends the test.
    return "set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n" + script


def main():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-c", commands()], cwd=folder, timeout=2 * PATIENCE, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})
    print(done.stdout, done.stderr)
    right = re.search(r"([\d.]+) % of 5000 rows", done.stdout)
    return 0 if done.returncode == 0 and right and float(right.group(1)) > 80 else 1


if __name__ == "__main__":
    sys.exit(main())
