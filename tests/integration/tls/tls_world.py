# SPDX-License-Identifier: Apache-2.0
"""A server with TLS, and clients in three languages that try to come in."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import grpc

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import PATIENCE, Server, program, run, wait_until  # noqa: E402,F401
from calls import MESSAGES  # noqa: E402
from cluster import BIN, REPOSITORY  # noqa: E402

from certificates import Authority  # noqa: E402

EXAMPLE = os.path.join(REPOSITORY, "client", "examples", "go")
WORKER = "URI:spiffe://test/job/demo/worker/7,DNS:worker-7.test"
SERVER = "IP:127.0.0.1,DNS:ps.test"


class World:
    """Authorities and certificates in a folder that `with` removes."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pserver-tls-")
        self.ours = Authority(os.path.join(self.folder, "ours"))
        self.others = Authority(os.path.join(self.folder, "others"))
        self.server = self.ours.sign("server", SERVER)
        self.worker = self.ours.sign("worker", WORKER)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o600)
        return path

    def flags(self, *more):
        return ("--tls-cert", self.server[0], "--tls-key", self.server[1], "--tls-ca",
                self.ours.ca, *more)

    def token(self, name):
        """A file with a token, and the line by which the server knows it."""
        text = hashlib.sha256(name.encode()).hexdigest()
        line = f"{name} sha256:{hashlib.sha256(text.encode()).hexdigest()}\n"
        return self.path(f"{name}.token", text + "\n"), line


def settings(ca=None, pair=None, token=None):
    """The environment by which the clients of all languages are told."""
    names = {"PSCLIENT_TLS_CA": ca, "PSCLIENT_TLS_CERT": pair and pair[0],
             "PSCLIENT_TLS_KEY": pair and pair[1], "PSCLIENT_TOKEN_FILE": token}
    return {name: path for name, path in names.items() if path}


def channel(address, wish, options=()):
    """A connection of grpcio by the same settings."""
    def read(name):
        if name not in wish:
            return None
        with open(wish[name], "rb") as file:
            return file.read()
    ca, token = read("PSCLIENT_TLS_CA"), read("PSCLIENT_TOKEN_FILE")
    if not ca:
        return grpc.insecure_channel(address, options=list(options))
    secure = grpc.ssl_channel_credentials(ca, read("PSCLIENT_TLS_KEY"), read("PSCLIENT_TLS_CERT"))
    if token:
        secure = grpc.composite_channel_credentials(
            secure, grpc.access_token_call_credentials(token.decode().strip()))
    return grpc.secure_channel(address, secure, options=list(options))


def ask(connection, service, method, request, timeout=PATIENCE):
    call = connection.unary_unary(f"/pserver.v1.{service}/{method}",
                                  request_serializer=lambda message: message.SerializeToString(),
                                  response_deserializer=lambda data: data)
    return call(request, timeout=timeout)


def do(connection, verb, timeout=PATIENCE):
    """Pulls "w", pushes to it, or has a checkpoint saved."""
    service, method, request = {
        "pull": ("ParameterServer", "GetParam", MESSAGES["pserver.v1.GetParamRequest"](name="w")),
        "push": ("ParameterServer", "SendGrad", MESSAGES["pserver.v1.SendGradRequest"](
            name="w", element_type=4, content=bytes(12))),
        "save": ("Admin", "SaveCheckpoint", MESSAGES["pserver.v1.SaveCheckpointRequest"]())}[verb]
    return ask(connection, service, method, request, timeout)


def initialise(address, wish):
    """Makes "w", three float32, and says that this is all."""
    with channel(address, wish) as connection:
        ask(connection, "ParameterServer", "InitParam", MESSAGES["pserver.v1.InitParamRequest"](
            name="w", element_type=4, content=bytes(12)))
        ask(connection, "ParameterServer", "FinishInitParams",
            MESSAGES["pserver.v1.FinishInitParamsRequest"]())


def try_python(address, wish, verb="pull"):
    """The code and the text of what was tried once."""
    with channel(address, wish) as connection:
        try:
            do(connection, verb)
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()} {error.debug_error_string()}"
    return "OK"


def try_c(address, wish, *words, timeout="1s"):
    """What psctl, which is made of libpsclient, says; status OK unless it says otherwise."""
    done = run("psctl", *(words or ("get", "w")), "--servers", address, "--timeout", timeout,
               environment=wish)
    return "OK" if done.returncode == 0 else done.stderr


class C:
    """The example in C, which pushes to "w" and pulls it, with the libpsclient of this build."""

    def __init__(self, folder):
        self.program = os.path.join(folder, "example")
        library = os.path.join(os.path.dirname(BIN), "lib")
        subprocess.run(
            ["cc", "-I", os.path.join(REPOSITORY, "client"), "-o", self.program,
             os.path.join(REPOSITORY, "client", "examples", "c", "example.c"), f"-L{library}",
             "-lpsclient", f"-Wl,-rpath,{library}"], check=True)

    def attempt(self, address, wish, verb):
        """psctl for what the example does not do."""
        if verb != "push":
            words = {"pull": ("get", "w"), "save": ("checkpoint",)}[verb]
            return try_c(address, wish, *words, timeout="60s")
        done = subprocess.run([self.program, address], check=False, text=True, env={
            **os.environ, **wish}, capture_output=True, timeout=PATIENCE)
        return "OK" if done.returncode == 0 else done.stderr


class Go:
    """A client in Go, built once for a run of tests."""

    def __init__(self, folder):
        self.folder = folder
        source = os.path.join(folder, "src", "try")
        os.makedirs(source)
        subprocess.run(["protoc", "-I", os.path.join(REPOSITORY, "proto"),
                        f"--go_out=plugins=grpc:{os.path.join(folder, 'src')}",
                        "pserver/v1/pserver.proto", "pserver/v1/admin.proto"], check=True)
        shutil.copy(os.path.join(EXAMPLE, "dial.go"), source)
        shutil.copy(os.path.join(HERE, "try.go"), source)
        cache = os.environ.get("GOCACHE") or os.path.join(
            os.environ.get("PS_BIN", folder), "..", "examples", "go", "cache")
        subprocess.run(["go", "build", "-o", os.path.join(folder, "try"), "try"], check=True,
                       env={**os.environ, "GO111MODULE": "off", "GOFLAGS": "",
                            "GOPATH": f"{folder}:/usr/share/gocode",
                            "GOCACHE": os.path.realpath(cache)})

    def attempt(self, address, wish, verb="pull"):
        clean = {name: text for name, text in os.environ.items() if "PSCLIENT_" not in name}
        return subprocess.run([os.path.join(self.folder, "try"), address, verb], check=True,
                              text=True, stdout=subprocess.PIPE, timeout=PATIENCE,
                              env={**clean, **wish}).stdout
