# SPDX-License-Identifier: Apache-2.0
"""psctl define, rows and params: tables as an operator sees them."""

import json
import os
import unittest

from blackbox import Server, run

USAGE, DATA_ERROR = 64, 65


class Tables(unittest.TestCase):
    """Two servers in a list, with one parameter that is not a table."""

    def setUp(self):
        self.servers = [self.enterContext(Server()) for _ in range(2)]
        self.where = ["--servers", ",".join(server.address for server in self.servers),
                      "--timeout", "60s"]
        data = os.path.join(self.servers[0].cluster.folder, "train.svm")
        run("pstrain", "generate", "--out", data, "--rows", "20")
        done = run("pstrain", "--data", data, *self.where[:2], "--epochs", "1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def psctl(self, *words, code=0):
        done = run("psctl", *words, *self.where)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def document(self, *words):
        return json.loads(self.psctl(*words, "--output", "json").stdout)

    def test_a_table_is_defined_shown_read_and_dropped(self):
        words = ("define", "emb", "rule=adagrad", "width=3", "lr=0.5", "init=constant", "low=0.25")
        self.assertIn("emb: adagrad lr=0.5", self.psctl(*words).stdout)
        self.psctl(*words)
        self.psctl("define", "emb", "width=4", code=USAGE)
        self.psctl("define", "emb", *reversed(words[2:]))  # equal, in whatever order

        rows = self.document("rows", "emb", "17", "0xffffffffffffffff")
        self.assertEqual([row["key"] for row in rows], [17, 2**64 - 1])
        self.assertEqual([row["values"] for row in rows], [[0.25] * 3] * 2)
        self.assertEqual({row["rows"] for row in self.document("rows", "emb", "*")}, {0})
        self.assertEqual(len(self.document("rows", "emb", "*")), 2)

        shown, = self.document("show", "emb")
        self.assertEqual(shown["config"]["table.width"], 3)
        changed, = self.document("set", "emb", "lr=0.25")
        self.assertEqual(changed["after"]["lr"], 0.25)
        self.assertIn("psctl rows", self.psctl("get", "emb", code=USAGE).stderr)

        self.psctl("drop", "emb", "--yes")
        self.psctl("rows", "emb", "1", code=DATA_ERROR)
        self.psctl("rows", "emb", "*", code=DATA_ERROR)

    def test_what_cannot_be_is_refused(self):
        for words in (["width"], ["width=wide"], ["depth=3"], ["lr=0.5"], ["width=0"],
                      ["type=f16", "width=1"], ["rule=sgd", "rule=adam", "width=1"],
                      ["rule=none", "width=1"]):
            self.psctl("define", "emb", *words, code=USAGE)
        self.psctl("define", "emb", "width=1", "partition=range", "keys_max=10")
        for key in ("-1", "1e3", "0x", "18446744073709551616", "", "10"):
            self.psctl("rows", "emb", key, code=USAGE)
        other = next(row["name"] for row in self.document("params") if row["name"] != "emb")
        self.psctl("rows", other, "1", code=USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
