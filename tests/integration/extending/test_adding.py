#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The pages "How to add ...", followed literally in one copy of the tree by somebody who knows
nothing else: each page touches the files that it names and no more of them than it may; the copy
builds; what was added works against real servers, and is refused by those of before."""

import json
import os
import signal
import struct
import subprocess
import unittest

import grpc

from extending import Page, Tree
from calls import MESSAGES, Calls
from cluster import BIN, PATIENCE, Process, wait_until

USAGE, UNAVAILABLE = 64, 69
INT16 = 6

# Page, and how many source files it may name.
PAGES = {"add-a-rule.md": 4, "add-an-element-type.md": 5, "add-a-psctl-command.md": 2,
         "add-an-rpc.md": 6}


class Server:
    """A pserver of one build, alone on a folder."""

    def __init__(self, programs, folder):
        os.makedirs(folder, exist_ok=True)
        self.process = Process("pserver", [os.path.join(programs, "pserver"), "--listen",
                                           "127.0.0.1:0", "--data-dir",
                                           os.path.join(folder, "data"), "--log-format", "json"],
                               folder)

    def __enter__(self):
        self.address = self.process.wait_event("listening")["address"]
        self.calls = Calls(self.address)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.log_file.close()

    def stop(self):
        self.process.signal(signal.SIGTERM)
        return self.process.wait_exit()


def run(programs, name, *arguments):
    return subprocess.run([os.path.join(programs, name), *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE, check=False)


class Adding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = Tree()
        cls.addClassCleanup(cls.tree.close)
        cls.touched = {}
        for name in PAGES:
            page = Page(name)
            cls.tree.touched = []
            cls.tree.follow(page)
            cls.touched[name] = (page, cls.tree.touched)
        cls.built = cls.tree.path("build/try/bin")
        cls.said = {name: [cls.tree.type(block) for block in page.shells]
                    for name, (page, _) in cls.touched.items()}

    def folder(self):
        return self.tree.path(f"run-{self.id().rsplit('.', 1)[1]}")

    def test_each_page_touches_what_it_names_and_few_source_files(self):
        for name, most in PAGES.items():
            page, touched = self.touched[name]
            with self.subTest(name):
                self.assertEqual(sorted(touched), sorted(page.files))
                self.assertGreater(len(page.sources), 0)
                self.assertLessEqual(len(page.sources), most)

    def test_lists_agree_when_everything_is_added(self):
        self.tree.type("/usr/bin/python3 tests/integration/extending/test_lists.py")

    def test_the_rules_own_test_was_run(self):
        alone = self.said["add-a-rule.md"][0]
        self.assertIn("ok   lion_is_the_published_algorithm", alone)
        self.assertIn("ok   every_rule_gives_these_bits_on_every_machine", alone)

    def train(self, trainer, server, number):
        """`pstrain --optimizer lion` of one build through a pserver of another."""
        data = self.tree.path("train.svm")
        run(BIN, "pstrain", "generate", "--out", data, "--rows", "2000", "--noise", "0.05")
        with Server(server, f"{self.folder()}-{number}") as serving:
            return run(trainer, "pstrain", "--data", data, "--test", data, "--servers",
                       serving.address, "--optimizer", "lion", "--epochs", "20", "--output", "json")

    def test_a_model_is_trained_with_the_rule_and_not_without(self):
        trained = self.train(self.built, self.built, 1)
        without = self.train(BIN, BIN, 2)
        refused = self.train(self.built, BIN, 3)

        self.assertEqual(trained.returncode, 0, trained.stderr)
        result = json.loads(trained.stdout)
        self.assertGreater(result["test_accuracy"], 0.9)
        self.assertLess(result["train_loss"], 0.4)
        self.assertEqual(without.returncode, USAGE, without.stderr)
        self.assertIn("lion", without.stderr)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("Optimizer has no number 209", refused.stderr)

    def init(self, calls):
        config = MESSAGES["paddle.OptimizerConfig"](optimizer=205).SerializeToString()
        request = MESSAGES["pserver.v1.InitParamRequest"](
            name="w", element_type=INT16, content=struct.pack("<3h", 0, -7, 30000), config=config)
        calls.call("InitParam", request)
        calls.finish()

    def test_a_parameter_of_the_type_is_pushed_to_and_comes_back_after_a_restart(self):
        with Server(self.built, self.folder()) as server:
            self.init(server.calls)
            push = MESSAGES["pserver.v1.SendGradRequest"](
                name="w", element_type=INT16, content=struct.pack("<3h", 5, -5, 30000))
            server.calls.call("SendGrad", push)
            self.assertEqual(server.stop(), 0)
        with Server(self.built, self.folder()) as server:
            wait_until(lambda: run(self.built, "psctl", "health", "--servers",
                                   server.address).returncode == 0, "it serves")
            shown = run(self.built, "psctl", "get", "w", "--servers", server.address)
            self.assertEqual((shown.stdout.split(), shown.returncode), (["5", "-12", "32767"], 0))
        with Server(BIN, f"{self.folder()}-before") as server:
            with self.assertRaises(grpc.RpcError) as refused:
                self.init(server.calls)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_the_command_runs_and_has_its_page(self):
        with Server(self.built, self.folder()) as server:
            where = ["--servers", server.address]
            table = run(self.built, "psctl", "uptime", *where)
            document = run(self.built, "psctl", "uptime", *where, "--output", "json")
            unknown = run(BIN, "psctl", "uptime", *where)
        gone = run(self.built, "psctl", "uptime", *where, "--timeout", "1")
        self.assertRegex(table.stdout, r"^INDEX  UPTIME\n0 +\d+\.\ds\n$")
        self.assertEqual(list(json.loads(document.stdout)[0]), ["index", "uptime_ms"])
        self.assertEqual(unknown.returncode, USAGE)
        self.assertEqual((gone.returncode, gone.stdout), (UNAVAILABLE, ""))
        self.assertIn("no server has answered", gone.stderr)
        self.assertIn("psctl uptime - how long", run(self.built, "psctl", "help", "uptime").stdout)
        self.assertIn("uptime", run(self.built, "psctl", "completion", "bash").stdout)

    def test_the_call_is_made_and_refused_by_a_server_of_before(self):
        with Server(self.built, self.folder()) as server:
            self.init(server.calls)
            where = ["--servers", server.address]
            made = run(self.built, "psctl", "release", *where)
        with Server(BIN, f"{self.folder()}-before") as server:
            refused = run(self.built, "psctl", "release", "--servers", server.address)
        self.assertEqual((made.stdout, made.returncode),
                         ("server 0: ready, 6 bytes of parameters\n", 0), made.stderr)
        self.assertEqual((refused.stdout, refused.returncode), ("", UNAVAILABLE))
        self.assertIn("psctl: server 0: ", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
