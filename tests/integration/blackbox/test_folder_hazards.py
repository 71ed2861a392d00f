# SPDX-License-Identifier: Apache-2.0
"""What people and their tools do to the folder of a server at work: backups by hard links and by
copies, files and folders that are removed. Nothing that was acknowledged is lost by it unless the
server says so."""

import glob
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

import grpc
from blackbox import Calls, Server, patiently, run
from cluster import wait_until

COUNT = 65536  # elements: a push is a quarter of the smallest segment
SMALL = ("--ack", "logged", "--journal-segment-bytes", "1MiB")


def content_of(folder):
    files = {}
    for path in glob.glob(os.path.join(folder, "shard-0", "*.journal")):
        with open(path, "rb") as file:
            files[os.path.basename(path)] = hash(file.read())
    return files


class FolderHazards(unittest.TestCase):
    def start(self, *flags, **named):
        self.server = Server(*flags, **named)
        self.addCleanup(self.server.__exit__)
        patiently(lambda: self.server.make_ready(values=[0.0] * COUNT))

    def push(self, times):
        for _ in range(times):
            patiently(lambda: self.server.calls.push("w", [1.0] * COUNT))

    def checkpoint(self):
        done = self.server.psctl("checkpoint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def version_in(self, data):
        """Of a server that starts on that folder."""
        with Server(*SMALL, data=data) as server:
            return patiently(lambda: server.calls.pull("w"))[1]

    def test_a_backup_by_hard_links_stays_as_it_was(self):
        self.start(*SMALL)
        self.push(6)
        self.checkpoint()
        self.push(6)
        backup = os.path.join(self.server.cluster.folder, "backup")
        subprocess.run(["cp", "-al", self.server.data, backup], check=True)
        before = content_of(backup)
        self.assertGreater(len(before), 2)
        for _ in range(3):  # segments are swept, and their files written over
            self.push(8)
            self.checkpoint()
        newest = max(before)  # it was at work, and had an end that was still to come
        after = content_of(backup)
        del before[newest], after[newest]
        self.assertEqual(after, before)
        done = run("psckpt", "verify", backup)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # The two have one file for the locks of leases, too: nobody holds them any more.
        self.server.process.kill()
        self.assertGreaterEqual(self.version_in(backup), 12)

    def test_a_copy_of_a_folder_at_work_has_what_was_acknowledged_before(self):
        self.start(*SMALL, interval="200ms")
        over, acknowledged = threading.Event(), [0]

        def go_on():
            while not over.is_set():
                self.push(1)
                acknowledged[0] += 1
        pusher = threading.Thread(target=go_on)
        pusher.start()
        copies = []
        try:
            for i in range(3):
                wait_until(lambda: acknowledged[0] >= 12 * (i + 1), "pushes go on")
                copies.append((os.path.join(self.server.cluster.folder, f"copy-{i}"),
                               acknowledged[0]))
                # Files that a sweep has taken away meanwhile are named, and are not wanted.
                subprocess.run(["cp", "-r", self.server.data, copies[i][0]], check=False,
                               stderr=subprocess.DEVNULL)
        finally:
            over.set()
            pusher.join()
        for folder, count in copies:
            self.assertGreaterEqual(self.version_in(folder), count)

    def after_a_kill(self):
        self.server.process.kill()
        self.server.start()
        return patiently(lambda: self.server.calls.pull("w"))[1]

    def gone(self, remove):
        """What was acknowledged into a file that is gone is saved as soon as that is noticed."""
        self.start("--ack", "logged")
        self.push(3)
        remove(os.path.join(self.server.data, "shard-0"))
        pushed = [3]

        def saved():
            self.push(1)
            pushed[0] += 1
            events = [row["msg"] for row in self.server.process.events()]
            found = next((i for i, text in enumerate(events) if "file is gone" in text), None)
            return found is not None and "checkpoint saved" in events[found:]
        wait_until(saved, "the server notices, and saves")
        self.push(2)
        self.assertEqual(self.after_a_kill(), pushed[0] + 2)

    def test_a_folder_that_was_removed_is_made_again_and_filled(self):
        self.gone(shutil.rmtree)

    def test_a_disk_that_is_taken_away_hides_nothing_that_was_acknowledged(self):
        """Below where it was mounted is a folder of another file system, which could be written to.
        A link in the place of a folder above is to a server what umount -l is."""
        top = tempfile.TemporaryDirectory(prefix="pserver-test-")
        below = tempfile.TemporaryDirectory(prefix="pserver-test-", dir="/dev/shm")
        for folder in (top, below):
            self.addCleanup(folder.cleanup)
        if os.stat(top.name).st_dev == os.stat(below.name).st_dev:
            self.skipTest("all folders are on one file system")
        mount, aside = os.path.join(top.name, "mount"), os.path.join(top.name, "aside")
        os.mkdir(mount)
        os.mkdir(os.path.join(below.name, "data"))
        self.start("--ack", "logged", "--etcd-ttl", "60s", data=os.path.join(mount, "data"))
        self.push(3)

        def take_away():
            os.rename(mount, aside)
            os.symlink(below.name, mount)

        def mount_again():
            os.unlink(mount)
            os.rename(aside, mount)

        def push_until_refused():
            """By the journal's next file, or by the look at the present one: whichever is first."""
            after = 0
            while after < 20:
                after += "the journal's file is gone" in self.server.process.log()
                try:
                    self.server.calls.push("w", [1.0] * COUNT)
                except grpc.RpcError as refused:
                    return refused.code()
                self.pushed += 1
            return None

        self.pushed = 3
        take_away()
        self.assertEqual(push_until_refused(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(os.listdir(os.path.join(below.name, "data")), [])
        mount_again()
        self.push(2)  # it goes on by itself
        # Pushes without an id: the one that was refused may have been applied.
        self.assertIn(self.after_a_kill() - self.pushed, (2, 3))

    def test_a_journal_that_was_removed_goes_on_in_another_file(self):
        def remove(folder):
            for path in glob.glob(os.path.join(folder, "*.journal")):
                os.remove(path)
        self.gone(remove)


if __name__ == "__main__":
    unittest.main(verbosity=2)
