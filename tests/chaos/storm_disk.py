# SPDX-License-Identifier: Apache-2.0
"""The disk of a storm: a small file system of its own where that is allowed, a folder elsewhere."""

import os
import subprocess

SIZE = 4 << 30  # bytes; the image is sparse


class Folder:
    """No limit: a full disk is played by the shim."""

    real = False

    def __init__(self, path):
        self.path = path
        os.makedirs(path)

    def close(self):
        pass


class Loop:
    """ext4 in a file. `fill` leaves no block, `free` gives them back."""

    real = True

    def __init__(self, path, size=SIZE, kind="ext4"):
        self.path = path
        self.image = path + ".image"
        self.ballast = os.path.join(path, "ballast")
        self.mounted = False
        os.makedirs(path)
        with open(self.image, "wb") as file:
            file.truncate(size)
        try:
            self.command(f"mkfs.{kind}", "-q", self.image)
            self.mount()
        except (OSError, subprocess.SubprocessError):
            os.unlink(self.image)
            os.rmdir(path)
            raise

    @staticmethod
    def command(*words):
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)

    def mount(self):
        self.command("mount", "-o", "loop", self.image, self.path)
        self.mounted = True

    def unmount(self):
        self.command("umount", self.path)
        self.mounted = False

    def fill(self):
        with open(self.ballast, "wb") as file:
            left = os.statvfs(self.path)
            room = left.f_bfree * left.f_frsize
            while room >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, room)
                except OSError:
                    room //= 2

    def free(self):
        if os.path.exists(self.ballast):
            os.unlink(self.ballast)

    def close(self):
        if self.mounted:
            self.unmount()


def make_disk(path, wanted):
    """The disk, and why it is not a file system of its own (None: it is one)."""
    if wanted == "folder":
        return Folder(path), "not asked for"
    if os.geteuid() != 0:
        return Folder(path), "not root"
    try:
        return Loop(path), None
    except (OSError, subprocess.SubprocessError) as error:
        text = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return Folder(path), f"no loop device: {text[-1] if text else error}"
