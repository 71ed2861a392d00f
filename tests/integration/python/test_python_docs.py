# SPDX-License-Identifier: Apache-2.0
"""docs/python.md and docs/tables.md: their examples run as they stand there, with servers here."""

import os
import re
import sys

from pserver.testing import Server

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# How many examples each page has at least.
PAGES = {"docs/python.md": 10, "docs/tables.md": 7}


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
    for page, least in PAGES.items():
        with Server() as first, Server() as second:
            count = run_page(page, {"ps-0:8000,ps-1:8000": f"{first.address},{second.address}"})
        print(f"{page}: {count} examples ran")
        if count < least:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
