# SPDX-License-Identifier: Apache-2.0
"""What psctl says of itself, and what bash makes of its completion."""

import os
import re
import subprocess
import unittest

from blackbox import program, run
from cluster import PATIENCE, REPOSITORY

USAGE = 64
TABLE = os.path.join(REPOSITORY, "tools", "psctl", "psctl_commands.h")


def commands_of_the_table():
    """The rows of PSCTL_TABLE, and the commands that psctl answers itself."""
    with open(TABLE, encoding="utf-8") as file:
        rows = re.findall(r"^    X\(([a-z_]+)\)", file.read(), re.M)
    return [row.replace("_", "-") for row in rows] + ["help", "version", "completion"]


COMMANDS = commands_of_the_table()


class Help(unittest.TestCase):
    def test_every_command_has_a_page_and_stands_in_the_list(self):
        everything = run("psctl", "--help").stdout
        for command in COMMANDS:
            self.assertRegex(everything, rf"(?m)^  {command}\b.*  \S")
            page = run("psctl", "help", command)
            self.assertEqual((page.returncode, page.stderr), (0, ""))
            self.assertTrue(page.stdout.startswith(f"psctl {command} - "), page.stdout)
            self.assertIn(f"Usage: psctl {command}", page.stdout)
            self.assertLessEqual(max(map(len, page.stdout.splitlines())), 80, page.stdout)
            if command not in ("help", "version"):
                self.assertIn("\nExamples:\n", page.stdout)
                for flag in ("--help", "-h"):
                    self.assertEqual(run("psctl", command, flag).stdout, page.stdout)
                    self.assertEqual(run("psctl", flag, command).stdout, page.stdout)

    def test_help_alone_is_the_page_of_the_program(self):
        everything = run("psctl", "--help").stdout
        for words in (["help"], ["-h"], ["help", "--help"]):
            self.assertEqual(run("psctl", *words).stdout, everything)
        refused = run("psctl", "help", "dance")
        self.assertEqual((refused.returncode, refused.stdout), (USAGE, ""))
        self.assertIn("\"dance\"", refused.stderr)

    def test_every_program_knows_h_and_version(self):
        for name in ("pserver", "psctl", "psckpt", "psbench", "pstrain"):
            self.assertIn("Usage:", run(name, "-h").stdout)
            self.assertRegex(run(name, "--version").stdout, rf"^{name} \d+\.\d+\.\d+\b.*\n$")
        self.assertEqual(run("psctl", "version").stdout, run("psctl", "--version").stdout)

    def test_two_places_and_none_are_refused_with_what_to_type(self):
        both = ["--etcd", "http://127.0.0.1:1", "--servers", "127.0.0.1:1"]
        for words in (["psctl", "status"], ["pstrain", "--data", "x"]):
            refused = run(*words, *both)
            self.assertEqual(refused.returncode, USAGE)
            self.assertIn("give one of them", refused.stderr)
            refused = run(*words, "--servers", "127.0.0.1:1",
                          environment={"PSERVER_ETCD": "http://127.0.0.1:1"})
            self.assertIn("PSERVER_ETCD", refused.stderr)
            refused = run(*words)
            self.assertEqual(refused.returncode, USAGE)
            self.assertIn("--etcd URL", refused.stderr)


class Completion(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last word."""
        script = ("source <(\"$0\" completion bash); COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _psctl; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "--norc", "-c", script, program("psctl"), "psctl", *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_commands(self):
        self.assertEqual(self.complete(""), COMMANDS)
        self.assertEqual(self.complete("he"), ["health", "help"])
        self.assertEqual(self.complete("--etcd", "http://x", "--timeout", "2", "ch"),
                         ["checkpoint"])
        self.assertEqual(self.complete("help", "dra"), ["drain"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("get", ""), [])

    def test_bash_completes_options_and_their_choices(self):
        self.assertEqual(self.complete("status", "--et"),
                         ["--etcd", "--etcd-user", "--etcd-password-file", "--etcd-password",
                          "--etcd-insecure-password", "--etcd-ca", "--etcd-cert", "--etcd-key"])
        self.assertEqual(self.complete("status", "--output", ""), ["table", "json"])
        self.assertEqual(self.complete("status", "--output", "j"), ["json"])
        self.assertEqual(self.complete("status", "--etcd", ""), [])

    def test_an_unknown_shell_is_refused(self):
        refused = run("psctl", "completion", "csh")
        self.assertEqual((refused.returncode, refused.stdout), (USAGE, ""))
        self.assertIn("bash|zsh|fish", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
