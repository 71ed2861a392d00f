# SPDX-License-Identifier: Apache-2.0
"""Tokens and roles over TLS: who shows none, or one that nobody knows, is not let in; whoever is
let in may do what the role says. From C, Python and Go."""

import os
import unittest

from tls_world import C, Go, Server, World, initialise, run, settings, try_python

ROLES = """rules:
  - identity: reader-1
    role: reader
  - identity: trainer-1
    role: trainer
  - identity: admin-1
    role: admin
  - identity: spiffe://test/job/demo/worker/*
    role: trainer
"""


@unittest.skipUnless("--tokens" in run("pserver", "--help").stdout, "a server without tokens")
class Roles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = world = cls.enterClassContext(World())
        cls.languages = {"python": try_python}
        for name, made in (("c", C), ("go", Go)):
            folder = os.path.join(world.folder, name)
            os.makedirs(folder)
            cls.languages[name] = made(folder).attempt
        lines, cls.who = "", {}
        for name in ("reader-1", "trainer-1", "admin-1", "nobody-1", "stranger-1"):
            path, line = world.token(name)
            cls.who[name] = settings(world.ours.ca, token=path)
            lines += line if name != "stranger-1" else ""
        cls.server = cls.enterClassContext(Server(
            *world.flags("--tls-client-auth", "request", "--tokens", world.path("tokens", lines),
                         "--roles", world.path("roles.yaml", ROLES))))
        initialise(cls.server.address, cls.who["admin-1"])

    def expect(self, who, verb, words):
        """One of the words must be in what each language says; the codes have two spellings."""
        for name, attempt in self.languages.items():
            said = attempt(self.server.address, who, verb)
            with self.subTest(language=name, verb=verb):
                self.assertTrue(any(word in said for word in words), said)

    def refused(self, who, verb, code, reason):
        self.expect(who, verb, [code])
        self.expect(who, verb, [reason])

    def test_each_role_may_do_what_it_is_for(self):
        worker = settings(self.world.ours.ca, self.world.worker)
        for who, verbs in ((self.who["reader-1"], ("pull",)),
                           (self.who["trainer-1"], ("pull", "push")), (worker, ("pull", "push")),
                           (self.who["admin-1"], ("pull", "push", "save"))):
            for verb in verbs:
                self.expect(who, verb, ["OK"])

    def test_a_reader_does_not_push_and_a_trainer_does_not_save(self):
        for name, verb, role in (("reader-1", "push", "trainer"), ("reader-1", "save", "admin"),
                                 ("trainer-1", "save", "admin"), ("nobody-1", "pull", "reader")):
            self.expect(self.who[name], verb, [f"role {role}"])
            said = try_python(self.server.address, self.who[name], verb)
            self.assertIn("PERMISSION_DENIED", said)

    def test_a_missing_token(self):
        for verb in ("pull", "push", "save"):
            self.expect(settings(self.world.ours.ca), verb, ["token"])
        self.assertIn("UNAUTHENTICATED", try_python(self.server.address,
                                                    settings(self.world.ours.ca)))

    def test_a_token_that_nobody_knows(self):
        for verb in ("pull", "push", "save"):
            self.expect(self.who["stranger-1"], verb, ["token"])
        self.assertIn("UNAUTHENTICATED", try_python(self.server.address, self.who["stranger-1"]))

    def test_a_token_does_not_leave_this_host_in_the_clear(self):
        path = self.who["reader-1"]["PSCLIENT_TOKEN_FILE"]
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
        done = run("psctl", "status", "--servers", self.server.address, "--timeout", "1s",
                   "--token-file", path)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn(token, done.stdout + done.stderr)
        self.assertNotIn(token, self.server.process.log())


if __name__ == "__main__":
    unittest.main()
