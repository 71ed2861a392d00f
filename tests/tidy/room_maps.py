# SPDX-License-Identifier: Apache-2.0
"""The page of a room: where README.md maps the room's files, every source file has a row there."""

import fnmatch
import os
import re

MAP = re.compile(r"^\| file\b", re.M)
CODE = re.compile(r"`([^`\n]+)`")
SOURCES = (".c", ".h", ".cu", ".cuh", ".py")


def stem_of(name):
    return os.path.splitext(name)[0]


def names_of(page):
    """The file names, without their endings, that rows of the page's tables say. "x_*" names all
    that begin so, and "x_<word>.c" as well."""
    rows = (line for line in page.splitlines() if line.startswith("|"))
    words = (word for row in rows for word in CODE.findall(row))
    return {stem_of(re.sub(r"<\w+>", "*", word)) for word in words}


def check(texts, paths, findings):
    """`texts`: the pages, by path; `paths`: every file of the tree."""
    for page, text in sorted(texts.items()):
        folder, name = os.path.split(page)
        if name != "README.md" or MAP.search(text) is None:
            continue
        names = names_of(text)
        for path in sorted(paths):
            stem = stem_of(os.path.basename(path))
            if os.path.dirname(path) == folder and path.endswith(SOURCES) \
                    and not any(fnmatch.fnmatchcase(stem, name) for name in names):
                findings.add(path, 1, "room-map",
                             f"{page} has no row for it: name `{stem}` in the table of files and "
                             "say what is in it")
