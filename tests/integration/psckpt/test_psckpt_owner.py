#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psckpt as root on the folder of a service: what it makes belongs to the service, and a server
under that user serves it; and on a file system that is mounted read-only, as the kernel does with a
disk that fails. Whoever is not root can give nothing away and mount nothing, and skips this."""

import os
import subprocess
import unittest

from psckpt_run import digest, psckpt
from test_psckpt import Folder, flip

USER = 65532  # of no account: servers need no name
BIN = os.environ["PS_BIN"]


@unittest.skipUnless(os.geteuid() == 0, "only root may give files away")
class Owner(Folder):
    def setUp(self):
        super().setUp()
        os.chmod(self.temp, 0o755)
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data)
        self.give(self.data)

    def below(self, folder):
        yield folder
        for path, folders, files in os.walk(folder):
            yield from (os.path.join(path, name) for name in folders + files)

    def give(self, folder):
        for path in self.below(folder):
            os.lchown(path, USER, USER)

    def owners(self, folder):
        return {os.lstat(path).st_uid for path in self.below(folder)}

    def served(self, folder):
        """As the service's user everything can be read, and digest reads what a server does."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PSERVER_")}
        subprocess.run([os.path.join(BIN, "psckpt"), "digest", folder], check=True, user=USER,
                       group=USER, extra_groups=[], env=clean, stdout=subprocess.DEVNULL,
                       timeout=120)

    def test_a_repaired_folder_is_its_owners(self):
        before = digest(self.data)
        psckpt("repair", "--in-place", self.data)
        self.assertIn(f"user {USER}", psckpt.errors)
        self.assertEqual(self.owners(self.data), {USER})
        self.served(self.data)
        self.assertEqual(digest(self.data), before)

    def test_a_new_folder_is_that_of_the_old_ones_owner(self):
        for command in ("repair", "salvage"):
            out = self.path(command)
            psckpt(command, self.data, "--out", out)
            self.assertEqual(self.owners(out), {USER})
            self.served(out)
        psckpt("reshard", self.data, "--to", 3, "--out", self.path("cut"))
        self.assertEqual(self.owners(self.path("cut")), {USER})

    def test_a_pointer_stays_with_the_store(self):
        psckpt("publish", self.data)
        self.assertEqual(self.owners(self.data), {USER})

    def test_one_shards_folder_stays_its_owners(self):
        psckpt("replay", self.shards[0], "--to", 15, "--out", self.path("past"))
        self.assertEqual(self.owners(self.path("past")), {USER})

    def test_who_looks_and_who_exports_changes_no_owner(self):
        os.chown(self.files("*.safetensors")[0], 0, 0)
        psckpt("verify", self.data)
        psckpt("export", self.data, "--out", self.path("plain"))
        self.assertEqual(self.owners(self.data), {0, USER})
        self.assertEqual(self.owners(self.path("plain")), {0})

    def test_names_that_lead_elsewhere_are_left_alone(self):
        """The folder's owner must not come to files of root's by putting their names in it."""
        elsewhere = self.path("roots")
        with open(elsewhere, "w", encoding="ascii"):
            pass
        os.link(elsewhere, os.path.join(self.data, "hard"))
        os.symlink(elsewhere, os.path.join(self.data, "soft"))
        os.mkfifo(os.path.join(self.data, "pipe"))
        psckpt("repair", "--in-place", self.data)
        self.assertEqual(os.stat(elsewhere).st_uid, 0)
        self.served(self.data)

    def test_a_command_that_fails_gives_back_what_it_made(self):
        for path in self.files("*.safetensors"):
            flip(path, os.path.getsize(path) - 1)
        psckpt("repair", "--in-place", self.data, code=65)
        self.assertEqual(self.owners(self.data), {USER})


@unittest.skipUnless(os.geteuid() == 0, "only root may mount a file system")
class ReadOnly(Folder):
    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.data, "store"))
        psckpt("publish", self.data)
        self.before = digest(self.data)

    def run_there(self, *words):
        """psckpt, in whose eyes alone the data folder is mounted read-only."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PSERVER_")}
        script = ('mount --bind "$DATA" "$DATA" && mount -o remount,ro,bind "$DATA" || exit 99\n'
                  'exec "$PSCKPT" "$@"')
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *words], capture_output=True,
            text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
            env={**clean, "DATA": self.data, "PSCKPT": os.path.join(BIN, "psckpt"),
                 "TMPDIR": self.temp})

    def test_what_is_whole_can_be_had_from_it(self):
        for command in ("repair", "salvage", "export"):
            out = self.path(command)
            done = self.run_there(command, self.data, "--out", out)
            if done.returncode == 99:
                self.skipTest(f"no mount: {done.stderr}")
            self.assertEqual(done.returncode, 0, done.stderr)
        for command in ("repair", "salvage"):
            self.assertEqual(digest(self.path(command)), self.before)
            # Its pointer is there: a server begins with it.
            self.assertTrue(os.path.getsize(os.path.join(self.path(command), "store", "store")))
        # The copy of the store is gone.
        self.assertEqual([name for name in os.listdir(self.temp) if name.startswith("psckpt-")], [])

    def test_what_would_change_it_says_why_it_cannot(self):
        done = self.run_there("repair", "--in-place", self.data)
        if done.returncode == 99:
            self.skipTest(f"no mount: {done.stderr}")
        self.assertEqual(done.returncode, 66)
        self.assertIn("Read-only file system", done.stderr)
        self.assertEqual(digest(self.data), self.before)


if __name__ == "__main__":
    unittest.main()
