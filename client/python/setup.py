# SPDX-License-Identifier: Apache-2.0
"""Builds the extension of the package, or takes one that CMake has built:

    PSERVER_EXTENSION=FILE   an extension with libpsclient inside, as CMake makes it
    (nothing)                compiles it against the libpsclient that pkg-config finds
"""

import os
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel


class BuildExtension(build_ext):
    """One binary for Python 3.11 and later, from CMake where that has built it."""

    def build_extension(self, extension):
        ready = os.environ.get("PSERVER_EXTENSION")
        if not ready:
            super().build_extension(extension)
            return
        target = self.get_ext_fullpath(extension.name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(ready, target)


class Wheel(bdist_wheel):
    """Named after the limited interface, not after the Python that made it."""

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


def pkg_config(word):
    """Flags of libpsclient without their two letters; none where pkg-config does not know it."""
    done = subprocess.run(["pkg-config", word, "psclient"], capture_output=True, text=True,
                          check=False)
    return [flag[2:] for flag in done.stdout.split()]


SOURCES = sorted(os.path.join("extension", name) for name in os.listdir("extension")
                 if name.endswith(".c"))

setup(ext_modules=[Extension("pserver._pserver", SOURCES, libraries=["psclient"],
                             include_dirs=pkg_config("--cflags-only-I"),
                             library_dirs=pkg_config("--libs-only-L"), py_limited_api=True)],
      cmdclass={"build_ext": BuildExtension, "bdist_wheel": Wheel})
