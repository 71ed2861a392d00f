# SPDX-License-Identifier: Apache-2.0
"""docs/python.md and README.md: their examples run as they stand there, with servers here."""

import os
import re
import sys

from pserver.testing import Server

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PAGES = ("docs/python.md", "README.md")


def examples(text):
    """(line, code) of every block that says that it is Python."""
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start(1)), match.group(1)


def run_page(page, addresses):
    """Runs the examples of a page one after the other; says how many there were."""
    with open(os.path.join(REPOSITORY, page), encoding="utf-8") as file:
        text = file.read()
    names = {"__name__": "docs"}
    count = 0
    for line, code in examples(text):
        for written, real in addresses.items():
            code = code.replace(written, real)
        exec(compile("\n" * line + code, page, "exec"), names)  # pylint: disable=exec-used
        count += 1
    return count


def main():
    with Server() as first, Server() as second, Server() as third:
        addresses = {"ps-0:8000,ps-1:8000": f"{first.address},{second.address}",
                     "127.0.0.1:8000": third.address}
        counts = [run_page(page, addresses) for page in PAGES]
    print(f"{counts} examples ran")
    return 0 if counts[0] >= 10 and counts[1] >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
