# SPDX-License-Identifier: Apache-2.0
"""The package as others get it: a wheel with libpsclient inside, or compiled against an installed
libpsclient."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SOURCE = os.path.join(REPOSITORY, "client", "python")
BUILD = os.path.dirname(os.environ["PS_BIN"])
EXTENSION = os.path.join(BUILD, "python", "pserver", "_pserver.abi3.so")
WORK = "import pserver; print(pserver.__version__, pserver.Adam(lr=0.5).config().hex()[:4])"


class Wheel(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_quietly(self, *command, **environment):
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def import_it(self, place, **environment):
        """From there alone: -P keeps the source folder out of the way."""
        shown = self.run_quietly(sys.executable, "-P", "-c", WORK, PYTHONPATH=place, **environment)
        self.assertEqual(shown, "0.1.0 0804\n")

    def setup_py(self, *words, **environment):
        return self.run_quietly(
            sys.executable, "setup.py", "--quiet", "build", "--build-base",
            os.path.join(self.folder, "build"), "egg_info", "--egg-base", self.folder, *words,
            **environment)

    def test_the_wheel_has_everything_and_shows_one_name(self):
        self.setup_py("bdist_wheel", "--dist-dir", self.folder, PSERVER_EXTENSION=EXTENSION)
        wheel, = glob.glob(os.path.join(self.folder, "pserver-*-cp311-abi3-*.whl"))
        place = os.path.join(self.folder, "place")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        self.import_it(place)
        shown = self.run_quietly("nm", "-D", "--defined-only",
                                 os.path.join(place, "pserver", "_pserver.abi3.so"))
        self.assertEqual([line.split()[-1] for line in shown.splitlines()], ["PyInit__pserver"])

    def test_it_compiles_against_an_installed_library(self):
        prefix = os.path.join(self.folder, "prefix")
        self.run_quietly("cmake", "--install", BUILD, "--component", "client", "--prefix", prefix)
        described, = glob.glob(os.path.join(prefix, "**", "psclient.pc"), recursive=True)
        library = os.path.dirname(os.path.dirname(described))
        place = os.path.join(self.folder, "place")
        self.setup_py("install_lib", "--install-dir", place, PSERVER_EXTENSION="",
                      PKG_CONFIG_PATH=os.path.dirname(described))
        self.import_it(place, LD_LIBRARY_PATH=library)


if __name__ == "__main__":
    unittest.main(verbosity=2)
