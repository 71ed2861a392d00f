# SPDX-License-Identifier: Apache-2.0
"""etcd at https, with a client's certificate, a user and a password in a file: servers and tools
coordinate through it, and whoever lacks one of these hears which."""

import os
import subprocess
import unittest

from tls_world import PATIENCE, World, program, run, wait_until
from blackbox import run_until
from cluster import Cluster, free_port

USAGE, UNAVAILABLE = 64, 69


class Etcd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = world = cls.enterClassContext(World())
        cls.pair = world.ours.sign("etcd-client", "DNS:client.test", subject="/")
        cls.password = world.path("password", "pass word\n")
        cls.cluster = cls.enterClassContext(Cluster(shards=1, etcd=False))
        port, peer = free_port(), free_port()
        cls.url = f"https://127.0.0.1:{port}"
        cls.cluster.run("etcd", [
            "etcd", "--data-dir", world.path("etcd"), "--listen-client-urls", cls.url,
            "--advertise-client-urls", cls.url, "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster",
            f"default=http://127.0.0.1:{peer}", "--cert-file", world.server[0], "--key-file",
            world.server[1], "--trusted-ca-file", world.ours.ca, "--client-cert-auth"])
        wait_until(lambda: cls.ctl("endpoint", "health").returncode == 0, "etcd is there")
        for words in (("user", "add", "root:pass word"), ("user", "grant-role", "root", "root"),
                      ("auth", "enable")):
            done = cls.ctl(*words)
            assert done.returncode == 0, done.stderr
        cls.cluster.run("pserver", [
            program("pserver"), "--listen", "127.0.0.1:0", "--log-format", "json",
            *cls.flags()]).wait_event("serving")

    @classmethod
    def ctl(cls, *words):
        return subprocess.run(
            ["etcdctl", "--endpoints", cls.url, "--cacert", cls.world.ours.ca, "--cert",
             cls.pair[0], "--key", cls.pair[1], *words], check=False, text=True,
            capture_output=True, timeout=PATIENCE, env={**os.environ, "ETCDCTL_API": "3"})

    @classmethod
    def flags(cls, **others):
        wish = {"etcd": cls.url, "etcd-ca": cls.world.ours.ca, "etcd-cert": cls.pair[0],
                "etcd-key": cls.pair[1], "etcd-user": "root", "etcd-password-file": cls.password,
                **others}
        return [word for name, value in wish.items() if value
                for word in (f"--{name.replace('_', '-')}", value)]

    def status(self, says="", **others):
        """With a time that is short, and longer until the answer has these words: a busy machine
        may need that for a handshake."""
        wish = {name.replace("_", "-"): value for name, value in others.items()}
        return run_until(lambda done: says in done.stdout + done.stderr, "psctl", "status",
                         *self.flags(**wish))

    def test_server_and_tool_find_each_other(self):
        done = self.status("uninitialized")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("uninitialized", done.stdout)

    def test_an_authority_that_did_not_sign(self):
        done = self.status("certificate", etcd_ca=self.world.others.ca)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("certificate", done.stderr)

    def test_no_certificate_is_no_way_in(self):
        done = self.status(etcd_cert=None, etcd_key=None)
        self.assertEqual(done.returncode, UNAVAILABLE)

    def test_a_certificate_with_a_common_name(self):
        done = self.status("without a CommonName", etcd_cert=self.world.worker[0],
                           etcd_key=self.world.worker[1])
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("without a CommonName", done.stderr)

    def test_a_wrong_password(self):
        done = self.status("authentication failed",
                           etcd_password_file=self.world.path("wrong", "guess\n"))
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("authentication failed", done.stderr)
        self.assertNotIn("guess", done.stderr)

    def test_a_password_does_not_go_over_http(self):
        for name in ("psctl", "pserver", "psckpt"):
            words = {"psctl": ["status"], "pserver": ["--check-config"],
                     "psckpt": ["list", self.world.folder]}[name]
            plain = ["--etcd", "http://127.0.0.1:1", "--etcd-user", "root", "--etcd-password-file",
                     self.password]
            with self.subTest(name=name):
                done = run(name, *words, *plain)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn("--etcd-insecure-password", done.stderr)
        told = run("pserver", "--check-config", *plain, "--etcd-insecure-password")
        self.assertEqual(told.returncode, 0, told.stderr)

    def test_a_password_that_cannot_be_read_ends_the_start(self):
        done = run("pserver", "--check-config",
                   *self.flags(**{"etcd-password-file": "/nowhere/password"}))
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("/nowhere/password", done.stderr)


if __name__ == "__main__":
    unittest.main()
