# SPDX-License-Identifier: Apache-2.0
"""The package as others get it: a wheel with every library inside, a Debian package, or compiled
against an installed libpsclient. tests/integration/image installs them where nothing else is."""

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
BUNDLE = os.path.join(BUILD, "python", "bundle", "_pserver.abi3.so")
PACKAGING = os.path.join(SOURCE, "packaging")
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

    def plain_wheel(self, extension):
        self.setup_py("bdist_wheel", "--dist-dir", self.folder, PSERVER_EXTENSION=extension)
        wheel, = glob.glob(os.path.join(self.folder, "pserver-*.whl"))
        return wheel

    def test_the_wheel_for_others_loads_no_library_of_this_machine(self):
        wheel = self.run_quietly(os.path.join(PACKAGING, "bundle_wheel.py"),
                                 self.plain_wheel(BUNDLE), os.path.join(self.folder, "out")).strip()
        self.assertRegex(os.path.basename(wheel), r"-cp311-abi3-manylinux_2_\d+_\w+\.whl$")
        place = os.path.join(self.folder, "place")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        extension = os.path.join(place, "pserver", "_pserver.abi3.so")
        shown = self.run_quietly("ldd", extension)
        theirs = [line.split()[0] for line in shown.splitlines() if place not in line]
        self.assertLessEqual({name.split(".so")[0] for name in theirs}, {
            "linux-vdso", "libc", "libm", "libgcc_s", "libstdc++", "libresolv", "ld-linux-x86-64",
            "/lib64/ld-linux-x86-64"})
        self.import_it(place)
        names = self.run_quietly("nm", "-D", "--defined-only", extension).splitlines()
        self.assertEqual([line.split()[-1] for line in names], ["PyInit__pserver"])
        licences, = glob.glob(os.path.join(place, "pserver-*.dist-info", "licenses"))
        self.assertIn("libgrpc29", os.listdir(licences))

    def test_the_debian_package_depends_on_what_it_loads(self):
        package = self.run_quietly(os.path.join(PACKAGING, "make_deb.sh"),
                                   self.plain_wheel(EXTENSION), self.folder).strip()
        depends = self.run_quietly("dpkg-deb", "--field", package, "Depends")
        for name in ("python3 (>= 3.11)", "python3-numpy", "libc6 (>=", "libgrpc29 (>="):
            self.assertIn(name, depends)
        self.run_quietly("dpkg-deb", "--extract", package, self.folder)
        self.import_it(os.path.join(self.folder, "usr", "lib", "python3", "dist-packages"))

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
