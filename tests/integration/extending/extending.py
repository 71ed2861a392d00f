# SPDX-License-Identifier: Apache-2.0
"""What the tests of the pages "How to add ..." share: a page taken apart, a copy of the tree in
which the page's blocks are done."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cluster"))

from cluster import REPOSITORY  # noqa: E402

FILE_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.M)
NEW_FILE = re.compile(r"^New file `([^`]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
EDIT = re.compile(r"^```diff\n--- (\S+)\n(.*?)^```$", re.M | re.S)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def is_source(path):
    """What a compiler, or a generator before it, reads; a page is not."""
    return path.endswith((".c", ".h", ".cu", ".cuh", ".proto", ".txt", ".cmake", ".py"))


class Page:
    """One page: the files that it names in its table, and its blocks in their order."""

    def __init__(self, name):
        with open(os.path.join(REPOSITORY, "docs", name), encoding="utf-8") as file:
            self.text = file.read()
        self.rows = FILE_ROW.findall(self.text)
        self.files = [path for path, _, _ in self.rows]
        self.sources = [path for path in self.files if is_source(path)]
        self.new_files = NEW_FILE.findall(self.text)
        self.edits = EDIT.findall(self.text)
        self.shells = SHELL.findall(self.text)


def edited(text, block):
    """The text with a block done: the lines around must be there, once."""
    lines = block.splitlines()
    before = "\n".join(line[1:] for line in lines if line[:1] != "+") + "\n"
    after = "\n".join(line[1:] for line in lines if line[:1] != "-") + "\n"
    if text.count(before) != 1:
        raise AssertionError(f"{text.count(before)} places instead of one for:\n{before}")
    return text.replace(before, after)


class Tree:
    """A copy of what git lists, in a folder of its own that goes at the end."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="ps-extending-")
        listed = subprocess.run(["git", "-C", REPOSITORY, "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.splitlines()
        for path in listed:
            origin = os.path.join(REPOSITORY, path)
            if os.path.isfile(origin):
                os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
                shutil.copy2(origin, self.path(path))
        self.touched = []

    def path(self, name):
        return os.path.join(self.root, name)

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def follow(self, page):
        """Does every block of a page, and notes the files that were touched."""
        for name, text in page.new_files:
            if os.path.exists(self.path(name)):
                raise AssertionError(f"{name} is new on the page, and there")
            self.write(name, text)
        for name, block in page.edits:
            with open(self.path(name), encoding="utf-8") as file:
                text = file.read()
            self.write(name, edited(text, block))

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        if name not in self.touched:
            self.touched.append(name)

    def type(self, block):
        """Types a block of the page into a shell at the top of the copy."""
        environment = {**os.environ, "CMAKE_GENERATOR": "Ninja", "CC": os.environ.get("CC", "cc")}
        typed = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=self.root,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False,
                               env=environment)
        if typed.returncode != 0:
            raise AssertionError(f"{block}\nended with {typed.returncode}:\n{typed.stdout[-6000:]}")
        return typed.stdout
