#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of tidy.py finds what it should, and leaves good files alone."""

import contextlib
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import floors
import laws
import spdx
import tidy
import tidy_rules

GOOD_HEADER = """/* What it is.
 *
 * Threads:  none.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
int ps_good(void);
"""
GOOD_SOURCE = """/* Why it exists. */
#include "base/good.h"

int ps_good(void)
{
    return 1;
}
"""


SILENT = "static int f(void)\n{\n" + "    g();\n" * 22 + "}\n"
ROOM = "server/core/values"


@contextlib.contextmanager
def laws_of(**changed):
    """Sets names of tidy_rules for one test; without any, the laws ask nothing of a room."""
    values = {"COMMENTS_MIN": 0.0, "COMMENT_FLOORS": {}, "SILENT_FUNCTIONS": {}, "WAITING": [],
              "EXPLAINED_FUNCTION_LINES": 1000, "ASSERTIONS_MIN": 0.0, "ASSERTION_FLOORS": {},
              "TESTED_ROOMS": ["base"]}
    values.update(changed)
    with contextlib.ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(unittest.mock.patch.object(tidy_rules, name, value))
        yield


def findings_of(files, **changed):
    """The rules that fire on a tree of these files, as (path, line, rule)."""
    with laws_of(**changed), write_tree(files) as root:
        _, findings = tidy.check_tree(root)
        return [(path, line, rule) for path, line, rule, _ in findings.rows]


@contextlib.contextmanager
def write_tree(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        yield root


class Tidy(unittest.TestCase):
    def assert_finds(self, path, line, rule, text):
        self.assertIn((path, line, rule), findings_of({path: text}))

    def assert_clean(self, path, text):
        self.assertEqual(findings_of({path: text}), [])

    def test_good_files_are_left_alone(self):
        self.assertEqual(findings_of({"base/good.h": GOOD_HEADER, "base/good.c": GOOD_SOURCE,
                                      "tests/unit/base/test_good.c": "/* Tests. */\n"}), [])

    def test_long_lines(self):
        self.assert_finds("server/a.c", 2, "line-length", "/* A. */\nint " + "a" * 97 + ";\n")
        self.assert_clean("server/a.c", "/* A. */\nint " + "a" * 95 + ";\n")

    def test_long_files(self):
        self.assert_finds("server/a.c", 501, "file-length", "/* A. */\n" + "\n" * 500)
        self.assert_clean("server/a.c", "/* A. */\n" + "\n" * 499)

    def test_long_functions(self):
        long = "static int\nf(void)\n{\n" + "    g();\n" * 57 + "}\n"
        self.assert_finds("server/a.c", 3, "function-length", "/* A. */\n\n" + long)
        self.assert_clean("server/a.c", "/* A. */\n\n" + long.replace("    g();\n", "", 1))

    def test_long_functions_of_scripts(self):
        self.assert_finds("tools/a.py", 1, "function-length", "def f():\n" + "    pass\n" * 60)
        self.assert_finds("tools/a.sh", 1, "function-length", "f() {\n" + "    :\n" * 59 + "}\n")
        self.assert_clean("tools/a.sh", "f() {\n" + "    :\n" * 58 + "}\n")

    def test_header_without_its_lines(self):
        self.assert_finds("base/a.h", 1, "header-opening", GOOD_HEADER.replace("Memory:", "Mem:"))
        self.assert_finds("base/a.h", 1, "header-opening", "#ifndef A\n")

    def test_source_without_opening(self):
        self.assert_finds("server/a.c", 1, "file-opening", "#include <stdio.h>\n")

    def test_banned_calls(self):
        for call in ("malloc(3)", "free (p)", "time(NULL)", "sleep(1)", "strcpy(a, b)",
                     "sprintf(a, b)", "atoi(a)", "strtok(a, b)", "rand()"):
            with self.subTest(call=call):
                self.assert_finds("server/core/a.c", 2, "banned-call",
                                  f"/* A. */\nint x = {call};\n")

    def test_words_that_only_look_like_banned_calls(self):
        for text in ("x.free(y);", "x->time(y);", "my_free(y);", "/* free(y) */", '"free(y)";',
                     "// free(y)", "int time;"):
            with self.subTest(text=text):
                self.assertNotIn("banned-call", [row[2] for row in findings_of(
                    {"server/core/a.c": f"/* A. */\n{text}\n"})])

    def test_calls_at_home(self):
        self.assertNotIn("banned-call", [row[2] for row in findings_of(
            {"base/alloc.c": "/* A. */\nint x = malloc(3);\n"})])

    def test_includes_upwards_and_sideways(self):
        for path, name in (("base/a.c", "json/json_reader.h"), ("optimizer/a.c", "proto/a.h"),
                           ("server/core/requests/a.c", "server/rpc/a.h"),
                           ("server/core/values/a.c", "server/core/update/parameter.h"),
                           ("server/core/sessions/a.c", "server/core/values/blocks.h"),
                           ("server/core/a.c", "base/log.h"), ("client/a.c", "server/a.h"),
                           ("tools/a.c", "checkpoint/checkpoint.h"),
                           ("etcd/a.c", "tests/support/a.h")):
            with self.subTest(path=path, name=name):
                self.assert_finds(path, 2, "include-direction",
                                  f'/* A. */\n#include "{name}"\n')

    def test_includes_downwards(self):
        self.assert_clean("server/a.c", '/* A. */\n#include "server/core/requests/service.h"\n')
        self.assert_clean("server/core/recovery/a.c",
                          '/* A. */\n#include "server/core/values/blocks.h"\n')
        self.assert_clean("client/a.c", '/* A. */\n#include "etcd/kv.h"\n')

    def test_libraries_away_from_home(self):
        text = "/* A. */\n#include <grpc/grpc.h>\n"
        self.assert_finds("server/core/a.c", 2, "library-home", text)
        self.assert_clean("server/rpc/a.c", text)

    def test_equal_names(self):
        rows = findings_of({"server/a.c": "/* A. */\n", "tools/a.c": "/* A. */\n"})
        self.assertEqual(rows, [("tools/a.c", 1, "unique-name")])

    def test_leftovers(self):
        self.assert_finds("docs/a.md", 2, "leftover", "A.\n" + "TO" + "DO: b\n")
        self.assert_clean("docs/a.md", "A template: a-" + "XXX" + "XXX\n")

    def test_words_that_were_replaced(self):
        word = "ps_" + "pin"
        self.assert_finds("server/a.c", 2, "banned-word", f"/* A. */\nstruct {word} *one;\n")
        self.assert_finds("server/a.c", 1, "banned-word", f"/* A {word}. */\n")
        self.assert_finds("docs/a.md", 2, "banned-word", f"A.\n`{word}` is.\n")
        self.assert_clean("server/a.c", f"/* A. */\nstruct {word}ned *one;\n")
        self.assert_clean("CHANGELOG.md", f"`{word}` has another name.\n")

    def test_sources_without_tests(self):
        self.assert_finds("base/good.c", 1, "test-exists", GOOD_SOURCE)
        self.assertEqual(findings_of({"base/good.c": GOOD_SOURCE,
                                      "tests/unit/base/test_good_more.c": "/* T. */\n"}), [])

    def test_sources_of_an_inner_room_without_tests(self):
        self.assertEqual(findings_of({"server/core/values/a.c": "/* A. */\n"},
                                     TESTED_ROOMS=["server/core"]),
                         [("server/core/values/a.c", 1, "test-exists")])


class Pages(unittest.TestCase):
    """Links lead somewhere, and every page of docs/ is reached."""

    INDEX = "# Index\n\n[a](a.md#a-heading-of-it) and [the root](../README.md)\n"
    PAGE = "# A\n\n## A `heading` of it\n\nText, [up](#a).\n"

    def test_pages_that_are_linked(self):
        self.assertEqual(findings_of({"docs/index.md": self.INDEX, "docs/a.md": self.PAGE,
                                      "README.md": "[b](docs/b.md), `[c](docs/c.md)`\n",
                                      "docs/b.md": "# B\n\n[out](https://example.org/x)\n"}), [])

    def test_a_page_that_nothing_leads_to(self):
        self.assertEqual(findings_of({"docs/index.md": "# I\n", "docs/a.md": self.PAGE}),
                         [("docs/a.md", 1, "page")])

    def test_links_that_lead_nowhere(self):
        self.assertEqual(findings_of({"README.md": "\n[b](docs/b.md)\n"}),
                         [("README.md", 2, "link")])
        self.assertEqual(findings_of({"docs/index.md": self.INDEX, "README.md": "# R\n",
                                      "docs/a.md": "# Another\n"}),
                         [("docs/index.md", 3, "link")])


class RoomMaps(unittest.TestCase):
    """A page that maps its room's files names each of them."""

    MAP = "# R\n\n| file | what is in it |\n|---|---|\n"
    FILES = {"tools/r/a.h": GOOD_HEADER, "tools/r/b_one.c": "/* B. */\n"}

    def test_files_that_are_named(self):
        for names in ("`a`, `b_one` | both", "`a.h` | a, and `b_one.c`", "`a`, `b_<what>.c` | b",
                      "`a`, `b_*` | b"):
            page = {"tools/r/README.md": self.MAP + "| " + names + " |\n"}
            self.assertEqual(findings_of({**self.FILES, **page}), [])

    def test_a_file_without_a_row(self):
        page = {"tools/r/README.md": self.MAP + "| `a` | the first |\n\nAnd `b_one`.\n"}
        self.assertEqual(findings_of({**self.FILES, **page}),
                         [("tools/r/b_one.c", 1, "room-map")])

    def test_what_is_no_map_and_what_is_no_file_of_the_room(self):
        self.assertEqual(findings_of({**self.FILES, "tools/r/README.md": "# R\n"}), [])
        self.assertEqual(findings_of({"tools/r/README.md": self.MAP, "tools/r/in/b.c": "/* B. */\n",
                                      "tools/r/CMakeLists.txt": "\n"}), [])


class Licences(unittest.TestCase):
    """The line that names the licence."""

    TEXTS = {"base/a.c": "/* A. */\n", "tests/unit/base/test_a.c": "/* A. */\n",
             "base/a.h": GOOD_HEADER, "tools/b.py": "#!/usr/bin/python3\n\"\"\"B.\"\"\"\n",
             "tools/c": "#!/bin/sh\necho\n", "proto/d.proto": 'syntax = "proto3";\n',
             "CMakeLists.txt": "project(a)\n", "tests/sim/e.txt": "push\n", "README.md": "# F\n"}

    def test_the_line_is_written_once_and_then_nothing_is_missing(self):
        fixed = {path: spdx.fixed(path, text) for path, text in self.TEXTS.items()}

        self.assertEqual({path: spdx.fixed(path, text) for path, text in fixed.items()}, fixed)
        self.assertEqual(fixed["base/a.c"], f"/* {spdx.LICENCE} */\n/* A. */\n")
        self.assertEqual(fixed["tools/c"], f"#!/bin/sh\n# {spdx.LICENCE}\necho\n")
        self.assertEqual(fixed["tests/sim/e.txt"], "push\n")
        self.assertEqual(findings_of({**fixed, "LICENSE": "L\n"}), [])
        self.assertEqual(findings_of({**self.TEXTS, "LICENSE": "L\n"}),
                         [(path, 1, "licence") for path in sorted(self.TEXTS)
                          if path not in ("tests/sim/e.txt", "README.md")])

    def test_the_line_explains_nothing(self):
        line = f"/* {spdx.LICENCE} */\n"
        self.assertEqual(findings_of({"server/a.c": line + "int a;\n"}),
                         [("server/a.c", 1, "file-opening")])
        self.assertEqual(findings_of({ROOM + "/a.c": line + "/* A. */\n" + "int a;\n" * 6},
                                     COMMENTS_MIN=0.20), [(ROOM, 1, "comments")])
        self.assertEqual(findings_of({"server/a.c": line + "/* A. */\n" + "\n" * 499}), [])


class Laws(unittest.TestCase):
    """The laws about rooms: each fails on a bad tree and leaves a good one alone."""

    def test_room_with_too_few_comments(self):
        bad = {ROOM + "/a.c": "/* A. */\n" + "int a;\n" * 6}
        self.assertEqual(findings_of(bad, COMMENTS_MIN=0.20), [(ROOM, 1, "comments")])
        self.assertEqual(findings_of(bad, COMMENTS_MIN=0.20, COMMENT_FLOORS={ROOM: 0.16}), [])
        self.assertEqual(findings_of({ROOM + "/a.c": "/* A. */\n" + "int a;\n" * 5},
                                     COMMENTS_MIN=0.20), [])

    def test_room_below_a_floor_of_its_own(self):
        bad = {ROOM + "/a.c": "/* A. */\n" + "int a;\n" * 3}
        self.assertEqual(findings_of(bad, COMMENTS_MIN=0.20, COMMENT_FLOORS={ROOM: 0.34}),
                         [(ROOM, 1, "comments")])

    def test_headers_and_examples_do_not_count(self):
        good = {"client/examples/a.c": "/* A. */\n" + "int a;\n" * 9, "base/good.h": GOOD_HEADER}
        self.assertEqual(findings_of(good, COMMENTS_MIN=0.20), [])

    def test_long_function_that_says_nothing(self):
        text = "/* A. */\n\n" + SILENT
        self.assertEqual(findings_of({ROOM + "/a.c": text}, EXPLAINED_FUNCTION_LINES=25),
                         [(ROOM + "/a.c", 3, "silent-function")])
        self.assertEqual(findings_of({ROOM + "/a.c": text}, EXPLAINED_FUNCTION_LINES=25,
                                     SILENT_FUNCTIONS={ROOM: 1}), [])
        self.assertEqual(findings_of({ROOM + "/a.c": text.replace("    g();\n", "", 1)},
                                     EXPLAINED_FUNCTION_LINES=25), [])

    def test_long_function_with_a_comment_above_or_inside(self):
        for text in ("/* A. */\n\n/* Why. */\n" + SILENT,
                     "/* A. */\n\n/* Why,\n * in two lines. */\n" + SILENT,
                     "/* A. */\n\n" + SILENT.replace("g();", "g(); /* Why. */", 1),
                     "/* A. */\n\n" + SILENT.replace("(void)", "(void) /* Why. */", 1)):
            with self.subTest(text=text):
                self.assertEqual(findings_of({ROOM + "/a.c": text},
                                             EXPLAINED_FUNCTION_LINES=25), [])

    def test_comment_of_something_else_above_a_long_function(self):
        for above in ("/* Why. */\n\n", "int a; /* Why. */\n", '#define A "/* no */"\n'):
            with self.subTest(above=above):
                rows = findings_of({ROOM + "/a.c": "/* A. */\n\n" + above + SILENT},
                                   EXPLAINED_FUNCTION_LINES=25)
                self.assertEqual([row[2] for row in rows], ["silent-function"])

    def test_room_with_too_few_assertions(self):
        text = "/* A. */\nint f(void)\n{\n}\n\nint g(void)\n{\n    PS_ASSERT(a);\n}\n"
        self.assertEqual(findings_of({ROOM + "/a.c": text}, ASSERTIONS_MIN=1.0),
                         [(ROOM, 1, "assertions")])
        self.assertEqual(findings_of({ROOM + "/a.c": text + "_Static_assert(1, A);\n"},
                                     ASSERTIONS_MIN=1.0), [])
        self.assertEqual(findings_of({ROOM + "/a.c": text}, ASSERTIONS_MIN=1.0,
                                     ASSERTION_FLOORS={ROOM: 0.5}), [])
        self.assertEqual(findings_of({"tools/a.c": text}, ASSERTIONS_MIN=1.0), [])

    def test_assertions_in_comments_do_not_count(self):
        text = "/* PS_ASSERT(a) */\nint f(void)\n{\n}\n"
        self.assertEqual(findings_of({ROOM + "/a.c": text}, ASSERTIONS_MIN=1.0),
                         [(ROOM, 1, "assertions")])

    def test_floors_are_raised_and_never_lowered(self):
        rules = ('COMMENT_FLOORS = {\n    "base": 0.10,\n    "json": 0.50,\n}\n'
                 'SILENT_FUNCTIONS = {\n    "base": 2,\n}\nASSERTION_FLOORS = {\n}\n')
        rooms = {"base": laws.Figures(code=100, comment=15), "json": laws.Figures(code=9)}
        with laws_of(COMMENTS_MIN=0.2, COMMENT_FLOORS={"base": 0.10, "json": 0.50},
                     SILENT_FUNCTIONS={"base": 2}):
            self.assertEqual(floors.raised(rules, rooms),
                             rules.replace("0.10", "0.15").replace('    "base": 2,\n', ""))
            rooms["base"].comment = 20
            self.assertNotIn('"base"', floors.raised(rules, rooms))

    def test_lines_are_counted(self):
        figures = laws.figures_of("base/a.c", "/* A,\n * and more.\n */\n\nint a; /* Both. */\n"
                                  "const char *b = \"/* no */\"; // C.\n")

        self.assertEqual((figures.comment, figures.code), (4, 2))

    def test_floors_name_rooms_that_exist(self):
        for floors in (tidy_rules.COMMENT_FLOORS, tidy_rules.SILENT_FUNCTIONS,
                       tidy_rules.ASSERTION_FLOORS):
            self.assertEqual(sorted(set(floors) - set(tidy_rules.ROOMS)), [])


if __name__ == "__main__":
    unittest.main()
