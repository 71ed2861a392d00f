#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The line that names the licence: the first of every source file, or the one behind "#!".

    tests/tidy/spdx.py --fix [ROOT]     writes the line where it is missing
"""

import os
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"

# Which comment a file has, by how its name ends. A file that names its interpreter has "#".
COMMENTS = {
    (".c", ".h", ".cu", ".cuh"): f"/* {LICENCE} */",
    (".cc", ".cpp", ".go", ".js", ".proto"): f"// {LICENCE}",
    (".py", ".pyi", ".sh", ".cmake", "CMakeLists.txt"): f"# {LICENCE}",
}


def expected(path, text):
    """The line that the file must have; None: it is no source."""
    for endings, line in COMMENTS.items():
        if path.endswith(endings):
            return line
    return f"# {LICENCE}" if text.startswith("#!") else None


def is_there(path, text):
    line = expected(path, text)
    lines = text.split("\n", 2)
    return line is None or line in lines[:1] or (text.startswith("#!") and line in lines[1:2])


def fixed(path, text):
    """The text with its line."""
    if is_there(path, text):
        return text
    first, rest = text.split("\n", 1) if text.startswith("#!") else ("", text)
    return (f"{first}\n" if first else "") + f"{expected(path, text)}\n{rest}"


def without_line(path, text):
    """The text as the rules about how a file opens see it."""
    line = expected(path, text)
    return text[len(line) + 1:] if line is not None and text.startswith(line + "\n") else text


def with_blank_line(path, text):
    """The text as the laws see it: the line explains nothing, and the others keep their numbers."""
    bare = without_line(path, text)
    return bare if bare == text else "\n" + bare


def fix(root, paths):
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        if fixed(path, text) != text:
            with open(os.path.join(root, path), "w", encoding="utf-8",
                      errors="surrogateescape") as file:
                file.write(fixed(path, text))


def main(arguments):
    import tidy  # which imports this file
    if arguments[1:2] != ["--fix"]:
        print(__doc__)
        return 2
    root = arguments[2] if len(arguments) > 2 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "..")
    fix(root, tidy.listed_files(root))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
