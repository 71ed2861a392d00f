#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler does not: the shape of files, who may call and include what.

    tests/tidy/tidy.py [--figures | --raise] [ROOT]

Prints one line per finding, "path:line: what is wrong [rule]", and exits with 1 when there is one.
The limits and lists stand in tidy_rules.py. With --figures: the table of the rooms (laws.py) only.
With --raise: raises the floors of the rooms to what they have, to be committed with it.
"""

import ast
import os
import re
import subprocess
import sys

import floors
import laws
import pages
import room_maps
import spdx
import tidy_rules as rules
from c_text import brace_functions, without_comments
from laws import path_is_in, room_of

C_ENDINGS = (".c", ".h", ".cu")
CODE_ENDINGS = C_ENDINGS + (".cc", ".py", ".sh")
LEFTOVERS = re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + r"XX)\b")


class Findings:
    """Collects complaints; says them in the order of files."""

    def __init__(self):
        self.rows = []
        self.waiting = []

    def add(self, path, line, rule, text):
        row = (path, line, rule, text)
        if (path, rule) in rules.WAITING:
            self.waiting.append(row)
        else:
            self.rows.append(row)

    def print(self):
        for path, line, rule, text in sorted(self.waiting):
            print(f"note: {path}:{line}: {text} [{rule}, waiting]")
        for path, line, rule, text in sorted(self.rows):
            print(f"{path}:{line}: {text} [{rule}]")


def listed_files(root):
    """Paths of all files that belong to the project, relative to the root."""
    command = ["git", "-C", root, "ls-files", "-co", "--exclude-standard"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        paths = found.stdout.splitlines()
    else:
        paths = walked_files(root)
    return sorted(path for path in paths if os.path.isfile(os.path.join(root, path)))


def walked_files(root):
    """The same without git: everything but what builds leave behind."""
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if name not in ("build", "out", "node_modules", "__pycache__", ".git")]
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return paths


def at_home(path, homes):
    return any(path.startswith(home) if home.endswith("/") or "." not in home else path == home
               for home in homes)


def check_lengths(path, lines, findings):
    for number, line in enumerate(lines, 1):
        columns = len(line.expandtabs(4))
        if columns > rules.LINE_COLUMNS_MAX:
            findings.add(path, number, "line-length",
                         f"{columns} columns, at most {rules.LINE_COLUMNS_MAX}")
    counted = sum(spdx.LICENCE not in line for line in lines)
    if counted > rules.FILE_LINES_MAX:
        findings.add(path, len(lines), "file-length",
                     f"{counted} lines, at most {rules.FILE_LINES_MAX}: split the file")


def shell_functions(lines):
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"^(function )?\w[\w-]*\s*\(\)\s*\{", line) and not line.rstrip().endswith("}"):
            start = number
        elif line.startswith("}") and start is not None:
            yield start, number
            start = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def check_functions(path, text, lines, findings):
    if path.endswith(".py"):
        try:
            functions = list(python_functions(text))
        except SyntaxError as error:
            findings.add(path, error.lineno or 1, "syntax", f"no Python: {error.msg}")
            return
    elif path.endswith(".sh"):
        functions = shell_functions(lines)
    else:
        functions = brace_functions(lines)
    for first, last in functions:
        size = last - first + 1
        if size > rules.FUNCTION_LINES_MAX:
            findings.add(path, first, "function-length",
                         f"function of {size} lines, at most {rules.FUNCTION_LINES_MAX}")


def check_header(path, text, findings):
    if path in rules.HEADER_EXCEPTIONS:
        return
    comment = re.match(r"/\*(.*?)\*/", text, re.S)
    if comment is None:
        findings.add(path, 1, "header-opening", "a header opens with a comment that explains it")
        return
    for word in rules.HEADER_LINES:
        if not re.search(r"^ \* " + word, comment.group(1), re.M):
            findings.add(path, 1, "header-opening",
                         f"the first comment lacks the line \"{word} ...\"")


def check_opening(path, text, findings):
    if not text.startswith("/*"):
        findings.add(path, 1, "file-opening", "a source file opens with a comment: why it exists")


def check_calls(path, code, findings):
    for names, advice, homes in rules.BANNED_CALLS:
        there = [name for name in names if name in code]
        if not there or at_home(path, homes):
            continue
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(there) + r")\s*\(")
        for match in pattern.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            findings.add(path, line, "banned-call", f"{match.group(1)}() is banned: {advice}")


def check_includes(path, text, findings):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if match is None:
            continue
        if match.group(1) == "<":
            check_library(path, number, match.group(2), findings)
        else:
            check_room(path, number, match.group(2), findings)


def check_library(path, number, name, findings):
    for library, homes in rules.LIBRARY_HOMES.items():
        if name.startswith(library) and not any(path.startswith(home) for home in homes):
            findings.add(path, number, "library-home",
                         f"<{name}> belongs to {', '.join(homes)} only")


def check_room(path, number, name, findings):
    room = room_of(path)
    if room is None:
        return
    target = room_of(name)
    if target is None:
        if name.startswith("tests/"):
            findings.add(path, number, "include-direction", "the product does not see its tests")
        return
    if target != room and not path_is_in(target, rules.ROOMS[room]):
        allowed = ", ".join([room] + rules.ROOMS[room])
        findings.add(path, number, "include-direction",
                     f"{room} may not see \"{name}\"; it sees {allowed}")


def check_words(path, text, findings):
    """One word, one meaning: those that were replaced do not come back."""
    if at_home(path, rules.WORD_HOMES):
        return
    for words, advice, homes in rules.BANNED_WORDS:
        if at_home(path, homes):
            continue
        for match in re.finditer(words, text):
            line = text.count("\n", 0, match.start()) + 1
            findings.add(path, line, "banned-word", f"{match.group(0)}: say {advice}")


def check_leftovers(path, lines, findings):
    if any(path.startswith(exception) for exception in rules.LEFTOVER_EXCEPTIONS):
        return
    for number, line in enumerate(lines, 1):
        match = LEFTOVERS.search(line)
        if match is not None:
            findings.add(path, number, "leftover", f"{match.group(1)}: do it, or open an issue")


def check_names(paths, findings):
    first = {}
    for path in paths:
        name = os.path.basename(path)
        data = any(path.startswith(folder) for folder in rules.REPEATED_FOLDERS)
        if data or name in rules.REPEATED_NAMES:
            continue
        if name in first:
            findings.add(path, 1, "unique-name", f"{first[name]} has the same name")
        first.setdefault(name, path)


def tested_names(paths):
    """Every beginning of a test's name: test_kv_memory_lost.c tests kv.c and kv_memory.c."""
    names = set()
    for path in paths:
        stem, ending = os.path.splitext(os.path.basename(path))
        words = stem.split("_")
        if path.startswith("tests/") and ending == ".c" and words[0] == "test":
            names |= {"_".join(words[1:end]) for end in range(2, len(words) + 1)}
    return names


def missing_tests(paths):
    tested = tested_names(paths)
    for path in paths:
        stem, ending = os.path.splitext(os.path.basename(path))
        room = room_of(path) or ""
        if path_is_in(room, rules.TESTED_ROOMS) and ending == ".c" and stem not in tested \
                and path not in rules.TEST_EXCEPTIONS:
            yield path


def check_exceptions(paths, findings):
    """An exception for a file that is gone, or that has a test by now, is none any more."""
    tested = tested_names(paths)
    for path in rules.TEST_EXCEPTIONS:
        stem = os.path.splitext(os.path.basename(path))[0]
        gone = path not in paths and "tests/tidy/tidy_rules.py" in paths
        if gone or stem in tested:
            findings.add("tests/tidy/tidy_rules.py", 1, "exception",
                         f"{path} needs no exception any more")


def check_file(root, path, findings):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    lines = text.splitlines()
    if path.endswith(CODE_ENDINGS):
        check_lengths(path, lines, findings)
        check_functions(path, text, lines, findings)
    if path.endswith(CODE_ENDINGS + (".txt", ".cmake", ".proto", ".yaml", ".yml", ".json", ".md")):
        check_leftovers(path, lines, findings)
        check_words(path, text, findings)
    if not path.endswith(C_ENDINGS):
        return
    opening = spdx.without_line(path, text)
    if path.endswith(".h"):
        check_header(path, opening, findings)
    else:
        check_opening(path, opening, findings)
    check_calls(path, without_comments(text), findings)
    check_includes(path, text, findings)


def texts_of(root, paths):
    """(path, text) of the files that the laws measure."""
    for path in filter(laws.is_measured, paths):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            yield path, spdx.with_blank_line(path, file.read())


def check_licences(root, paths, findings):
    """A tree with a licence names it in every source file."""
    if "LICENSE" not in paths:
        return
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if not spdx.is_there(path, text):
            findings.add(path, 1, "licence",
                         f"the line \"{spdx.expected(path, text)}\" is missing: "
                         "tests/tidy/spdx.py --fix writes it")


def check_pages(root, paths, findings):
    texts = {}
    for path in paths:
        if path.endswith(".md"):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                texts[path] = file.read()
    pages.check(texts, set(paths), findings)
    room_maps.check(texts, set(paths), findings)


def check_tree(root):
    paths = listed_files(root)
    findings = Findings()
    for path in paths:
        check_file(root, path, findings)
    check_names(paths, findings)
    check_exceptions(paths, findings)
    check_pages(root, paths, findings)
    check_licences(root, paths, findings)
    for path in missing_tests(paths):
        stem = os.path.splitext(os.path.basename(path))[0]
        findings.add(path, 1, "test-exists", f"no test_{stem}.c or test_{stem}_....c in tests/")
    laws.check(laws.rooms_of(texts_of(root, paths)), findings)
    return paths, findings


def raise_floors(root):
    path = os.path.join(root, "tests/tidy/tidy_rules.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(floors.raised(text, laws.rooms_of(texts_of(root, listed_files(root)))))


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    roots = [argument for argument in arguments[1:] if not argument.startswith("--")]
    root = roots[0] if roots else os.path.join(here, "..", "..")
    if "--figures" in arguments:
        laws.print_figures(laws.rooms_of(texts_of(root, listed_files(root))))
        return 0
    if "--raise" in arguments:
        raise_floors(root)
        return 0
    paths, findings = check_tree(root)
    findings.print()
    print(f"tidy: {len(paths)} files, {len(findings.rows)} findings, "
          f"{len(findings.waiting)} waiting")
    return 1 if findings.rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
