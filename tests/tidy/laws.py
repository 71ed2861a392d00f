# SPDX-License-Identifier: Apache-2.0
"""The laws about whole rooms: how much of their C says why, and how much of it asserts.

A file is measured by itself, a room is the sum of its .c files, and each room has floors in
tidy_rules.py which it may not fall below. `tidy.py --figures` prints the table.
"""

import dataclasses
import re

import tidy_rules as rules
from c_text import brace_functions, only_comments, without_comments

ASSERTION = re.compile(r"\b(?:PS_ASSERT\w*|_Static_assert|static_assert)\s*\(")
WORD = re.compile(r"\w")


@dataclasses.dataclass
class Figures:
    """Counts of one file, or the sum of a room's files."""

    files: int = 0
    code: int = 0
    comment: int = 0
    functions: int = 0
    long: int = 0
    assertions: int = 0
    silent: list = dataclasses.field(default_factory=list)

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def comment_share(self):
        return self.comment / self.code if self.code else 1.0

    def assertion_share(self):
        return self.assertions / self.functions if self.functions else 1.0


def room_of(path):
    for room in rules.ROOMS:
        if path.startswith(room + "/"):
            return room
    return None


def path_is_in(path, folders):
    """Whether a path is one of the folders, or lies in one."""
    return any((path + "/").startswith(folder + "/") for folder in folders)


def is_measured(path):
    return path.endswith(".c") and room_of(path) is not None \
        and not path.startswith(tuple(rules.LAW_EXCEPTIONS))


def figures_of(path, text):
    """Measures one file. A line that holds code and a comment counts in both."""
    code = without_comments(text).splitlines()
    comment = only_comments(text).splitlines()
    figures = Figures(files=1, code=sum(1 for line in code if line.strip()),
                      comment=sum(1 for line in comment if WORD.search(line)),
                      assertions=len(ASSERTION.findall("\n".join(code))))
    for first, last in brace_functions(text.splitlines()):
        figures.functions += 1
        if last - first + 1 < rules.EXPLAINED_FUNCTION_LINES:
            continue
        figures.long += 1
        if not says_why(code, comment, first, last):
            figures.silent.append((path, first))
    return figures


def says_why(code, comment, first, last):
    """A comment ends directly above the function, or stands anywhere within its lines."""
    above_is_comment = first > 1 and comment[first - 2].strip() and not code[first - 2].strip()
    return bool(above_is_comment) or any(WORD.search(line) for line in comment[first - 1:last])


def rooms_of(texts):
    """room -> Figures, over the measured ones of (path, text)."""
    rooms = {}
    for path, text in texts:
        if is_measured(path):
            rooms.setdefault(room_of(path), Figures()).add(figures_of(path, text))
    return rooms


def check(rooms, findings):
    """Adds a finding for every room that is below one of its floors."""
    for room, figures in sorted(rooms.items()):
        floor = rules.COMMENT_FLOORS.get(room, rules.COMMENTS_MIN)
        if figures.comment_share() < floor:
            findings.add(room, 1, "comments",
                         f"{figures.comment} lines of comment for {figures.code} of code is "
                         f"{figures.comment_share():.3f}, at least {floor:.2f}: say why")
        floor = rules.ASSERTION_FLOORS.get(room, assertions_min(room))
        if figures.assertion_share() < floor:
            findings.add(room, 1, "assertions",
                         f"{figures.assertions} assertions in {figures.functions} functions is "
                         f"{figures.assertion_share():.3f} each, at least {floor:.2f}")
        allowed = rules.SILENT_FUNCTIONS.get(room, 0)
        if len(figures.silent) > allowed:
            for path, line in figures.silent:
                findings.add(path, line, "silent-function",
                             f"a function of {rules.EXPLAINED_FUNCTION_LINES} lines or more has "
                             f"a comment; {room} has {len(figures.silent)} without, "
                             f"at most {allowed}")


def assertions_min(room):
    return rules.ASSERTIONS_MIN if path_is_in(room, rules.ASSERTED_ROOMS) else 0.0


def print_figures(rooms):
    """One row for each room: what is there, and in brackets the floor (silent: the ceiling)."""
    print(f"{'room':24}{'files':>6}{'code':>7}{'comment':>9}{'share':>8} floor"
          f"{'functions':>11}{'long':>6}{'silent':>8} most{'asserts':>9}{'each':>7} floor")
    whole = Figures()
    for room, figures in sorted(rooms.items()):
        print_row(room, figures, rules.COMMENT_FLOORS.get(room, rules.COMMENTS_MIN),
                  rules.SILENT_FUNCTIONS.get(room, 0),
                  rules.ASSERTION_FLOORS.get(room, assertions_min(room)))
        whole.add(figures)
    print_row("all", whole, rules.COMMENTS_MIN, 0, rules.ASSERTIONS_MIN)


def print_row(room, figures, comments, silent, assertions):
    print(f"{room:24}{figures.files:6}{figures.code:7}{figures.comment:9}"
          f"{figures.comment_share():8.3f} {comments:5.2f}{figures.functions:11}{figures.long:6}"
          f"{len(figures.silent):8} {silent:4}{figures.assertions:9}"
          f"{figures.assertion_share():7.2f} {assertions:5.2f}")
