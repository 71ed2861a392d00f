#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lists that no compiler compares: the tables of the C code against the .proto files, the public
header and the pages."""

import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))

import optimizer_rules  # noqa: E402


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def braces(text, opening):
    """What stands between an opening and the next closing brace."""
    return re.search(re.escape(opening) + r"[^{]*\{(.*?)\}", text, re.S).group(1)


class Lists(unittest.TestCase):
    def test_element_types_have_their_place_in_the_table_as_number(self):
        rows = re.findall(r"X\(PS_\w+, (\w+), \w+, \w+, \"\w+\"\)", read("base", "dtype.h"))
        wire = re.findall(r"(\w+) = (\d+);",
                          braces(read("proto", "pserver", "v1", "pserver.proto"), "ElementType"))
        public = re.findall(r"PSCLIENT_(\w+) = (\d+)",
                            braces(read("client", "psclient.h"), "enum psclient_type"))
        kinds = {"i": "INT", "u": "UINT", "f": "FLOAT"}
        expected = [(kinds[row[0]] + row[1:], str(number)) for number, row in enumerate(rows)]
        self.assertEqual(wire, expected)
        # Halves are types of the caller's memory alone, far behind those of parameters.
        self.assertEqual([row for row in public if int(row[1]) < 32], expected)

    def test_every_rule_has_an_optimizer_in_the_proto_and_a_row_in_the_page(self):
        proto = read("proto", "pserver", "v1", "optimizer_config.proto")
        optimizers = {name.lower() for name, _ in
                      re.findall(r"(\w+) = (\d+);", braces(proto, "enum Optimizer"))}
        rules = {name for name, _, _, _ in optimizer_rules.read_rules()}
        self.assertEqual(rules - optimizers, {"momentum", "nesterov"})
        self.assertEqual(optimizers - rules, set())
        page = read("optimizer", "README.md")
        for rule in rules:
            self.assertRegex(page, rf"(?m)^\| [^|]*`{rule}`[^|]* \|")

    def test_calls_for_operators_are_those_of_the_proto(self):
        table = re.findall(r'"pserver\.v1\.Admin", "(\w+)"', read("proto", "methods.h"))
        proto = re.findall(r"rpc (\w+)\(", read("proto", "pserver", "v1", "admin.proto"))
        self.assertEqual(sorted(table), sorted(proto))
        served = re.findall(r'ADMIN_PATH\("(\w+)"\)', read("server", "rpc", "unary_methods.c"))
        self.assertEqual(sorted(served), sorted(proto))


if __name__ == "__main__":
    unittest.main(verbosity=2)
