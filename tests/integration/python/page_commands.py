#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of a page, its blocks that say bash, as one script that ends at the first failure:

    page_commands.py PAGE | bash
"""

import re
import sys

# A shell that is typed into stops at nothing, and what it started is left to its user.
BEGIN = "set -euo pipefail\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n"


def commands(path):
    """The script of the page in a file."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```bash\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
    return BEGIN + "\n".join(blocks)


if __name__ == "__main__":
    print(commands(sys.argv[1]))
