# SPDX-License-Identifier: Apache-2.0
"""An authority (tls/certificates.py) with the flags of its servers and calls of its clients."""

import os
import sys

import grpc

from blackbox import Calls

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tls"))

import certificates  # noqa: E402


class Authority(certificates.Authority):
    """Signs certificates. Files are called NAME.pem and NAME.key; its own name is ca."""

    def path(self, name, ending="pem"):
        return os.path.join(self.folder, f"{name}.{ending}")

    def server_flags(self, *more):
        return ("--tls-cert", self.path("server"), "--tls-key", self.path("server", "key"),
                "--tls-ca", self.ca, *more)

    def calls(self, address, name=None, token=None, trusted=None):
        """Calls over TLS, with the certificate of `name` and a token, or without either."""
        trusted = trusted or self.ca
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
