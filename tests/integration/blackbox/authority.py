# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test's own, made by openssl in a folder, and clients that show them."""

import os
import subprocess

import grpc

from blackbox import PATIENCE, Calls


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE)


class Authority:
    """Signs certificates. Files are called NAME.pem and NAME.key."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.name = name
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", self.path(name, "key"),
                "-out", self.path(name))

    def path(self, name, ending="pem"):
        return os.path.join(self.folder, f"{name}.{ending}")

    def sign(self, name, names, days="30"):
        """Writes beside the old files and renames, as whoever rotates certificates does."""
        extensions = self.path(name, "ext")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/CN={name}", "-keyout", self.path(name, "key.new"),
                "-out", self.path(name, "csr"))
        openssl("x509", "-req", "-in", self.path(name, "csr"), "-CA", self.path(self.name),
                "-CAkey", self.path(self.name, "key"), "-CAcreateserial", "-days", days,
                "-extfile", extensions, "-out", self.path(name, "pem.new"))
        os.rename(self.path(name, "key.new"), self.path(name, "key"))
        os.rename(self.path(name, "pem.new"), self.path(name))

    def server_flags(self, *more):
        return ("--tls-cert", self.path("server"), "--tls-key", self.path("server", "key"),
                "--tls-ca", self.path(self.name), *more)

    def calls(self, address, name=None, token=None, trusted=None):
        """Calls over TLS, with the certificate of `name` and a token, or without either."""
        trusted = trusted or self.path(self.name)
        pair = (read(self.path(name, "key")), read(self.path(name))) if name else (None, None)
        credentials = grpc.ssl_channel_credentials(read(trusted), *pair)
        if token is not None:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(token))
        calls = Calls(address)
        calls.channel.close()
        calls.channel = grpc.secure_channel(
            address, credentials, options=[("grpc.initial_reconnect_backoff_ms", 100),
                                           ("grpc.use_local_subchannel_pool", 1)])
        return calls


def read(path):
    with open(path, "rb") as file:
        return file.read()
