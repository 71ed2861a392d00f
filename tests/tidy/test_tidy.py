#!/usr/bin/python3
"""Every rule of tidy.py finds what it should, and leaves good files alone."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
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


def findings_of(files):
    """The rules that fire on a tree of these files, as (path, line, rule)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        tidy_rules.TESTS_REQUIRED = True
        _, findings = tidy.check_tree(root)
        return [(path, line, rule) for path, line, rule, _ in findings.rows]


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
        long = "static int\nf(void)\n{\n" + "    g();\n" * 67 + "}\n"
        self.assert_finds("server/a.c", 3, "function-length", "/* A. */\n\n" + long)
        self.assert_clean("server/a.c", "/* A. */\n\n" + long.replace("    g();\n", "", 1))

    def test_long_functions_of_scripts(self):
        self.assert_finds("tools/a.py", 1, "function-length", "def f():\n" + "    pass\n" * 70)
        self.assert_finds("tools/a.sh", 1, "function-length", "f() {\n" + "    :\n" * 69 + "}\n")
        self.assert_clean("tools/a.sh", "f() {\n" + "    :\n" * 68 + "}\n")

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
                           ("tools/a.c", "etcd/kv.h"), ("etcd/a.c", "tests/support/a.h")):
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

    def test_sources_without_tests(self):
        self.assert_finds("base/good.c", 1, "test-exists", GOOD_SOURCE)
        self.assertEqual(findings_of({"base/good.c": GOOD_SOURCE,
                                      "tests/unit/base/test_good_more.c": "/* T. */\n"}), [])


if __name__ == "__main__":
    unittest.main()
