# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: its examples run as they stand there, with two servers of this host."""

import os
import re
import sys

from pserver.testing import Server

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PAGE = os.path.join(REPOSITORY, "docs", "python.md")


def examples(text):
    """(line, code) of every block that says that it is Python."""
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start(1)), match.group(1)


def main():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    count = 0
    with Server() as first, Server() as second:
        names = {"__name__": "docs"}
        for line, code in examples(text):
            code = code.replace("ps-0:8000,ps-1:8000", f"{first.address},{second.address}")
            exec(compile("\n" * line + code, PAGE, "exec"), names)  # pylint: disable=exec-used
            count += 1
    print(f"{count} examples ran")
    return 0 if count >= 9 else 1


if __name__ == "__main__":
    sys.exit(main())
