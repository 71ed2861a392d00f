# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the openssl command: authorities, and what they vouch for."""

import os
import subprocess
import time

DAY = 24 * 3600
CONFIG = """[ca]
default_ca = this
[this]
database = index
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = optional
"""


def openssl(*words, folder=None, check=True):
    return subprocess.run(["openssl", *words], cwd=folder, check=check, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


class Authority:
    """One that signs what it is asked to, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder)
        for name, text in (("index", ""), ("serial", "1000\n"), ("config", CONFIG)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        self._key("ca")
        openssl("req", "-x509", "-new", "-key", "ca.key", "-days", "2", "-subj",
                f"/CN={os.path.basename(folder)}", "-out", "ca.pem", folder=folder)

    def _key(self, name):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key",
                folder=self.folder)

    @property
    def ca(self):
        return os.path.join(self.folder, "ca.pem")

    def sign(self, name, alternatives, begins=-DAY, ends=DAY, subject=None):
        """A pair of paths: a certificate and its key. Times are seconds from now. Both are put in
        the place of older ones as a whole, as whoever renews certificates does."""
        subject = f"/CN={name}" if subject is None else subject
        def stamp(seconds):
            return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        named = ("-addext", f"subjectAltName={alternatives}") if alternatives else ()
        self._key(f"{name}.new")
        openssl("req", "-new", "-key", f"{name}.new.key", "-subj", subject, *named, "-out",
                f"{name}.csr", folder=self.folder)
        openssl("ca", "-batch", "-config", "config", "-notext", "-cert", "ca.pem", "-keyfile",
                "ca.key", "-startdate", stamp(begins), "-enddate", stamp(ends), "-in",
                f"{name}.csr", "-out", f"{name}.new.pem", folder=self.folder)
        for new, path in zip(self.pair(f"{name}.new"), self.pair(name)):
            os.rename(new, path)
        return self.pair(name)

    def pair(self, name):
        return tuple(os.path.join(self.folder, name + ending) for ending in (".pem", ".key"))


def put(source, target):
    """Puts a file in the place of another as a whole, as whoever renews certificates does."""
    with open(source, "rb") as file:
        content = file.read()
    with open(target + ".new", "wb") as file:
        file.write(content)
    os.rename(target + ".new", target)


def serial_of(path):
    return openssl("x509", "-in", path, "-noout", "-serial").stdout.strip()


def serial_shown(port, *words):
    """Of the certificate that a port shows at a handshake; empty: there was none."""
    seen = openssl("s_client", "-connect", f"127.0.0.1:{port}", *words, check=False).stdout
    if "-----BEGIN CERTIFICATE-----" not in seen:
        return ""
    return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=seen, text=True,
                          check=True, stdout=subprocess.PIPE).stdout.strip()
