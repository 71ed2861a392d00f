# SPDX-License-Identifier: Apache-2.0
"""A parameter server for tests, on a free port of this host, gone when the test ends.

    with pserver.testing.Server() as server, pserver.connect(server.address) as ps:
        ...
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from types import TracebackType


class Server:
    """A pserver process with a folder of its own.

    Args:
        flags: more options of the program, ``"--ack=memory"`` for instance.
        program: its path; None: ``PSERVER_PROGRAM`` of the environment, else the ``PATH``'s.
        data: whether it has a data directory, and so survives ``kill()`` and ``start()``.
        timeout: seconds that the process may take to start.
    """

    def __init__(self, *flags: str, program: str | None = None, data: bool = True,
                 timeout: float = 60.0) -> None:
        self.program = program or os.environ.get("PSERVER_PROGRAM") or shutil.which("pserver")
        if self.program is None:
            raise FileNotFoundError("no program pserver: set PSERVER_PROGRAM, or the PATH")
        self._flags = flags
        self._timeout = timeout
        self._data = data
        self._folder = tempfile.mkdtemp(prefix="pserver-testing-")
        self._process: subprocess.Popen[bytes] | None = None
        #: "127.0.0.1:PORT"; the same after ``start()`` again.
        self.address = "127.0.0.1:0"

    def start(self) -> Server:
        """Starts the process, or another one in the place of one that ended, at the same address.
        Returns when it listens."""
        command = [str(self.program), "--listen", self.address, "--log-format", "json",
                   "--etcd-ttl", "60s", *self._flags]
        if self._data:
            command += ["--data-dir", self.data_path]
        with open(self.log_path, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT)
        self.address = self._listening()
        return self

    @property
    def log_path(self) -> str:
        """The file with what the process has said, one line of JSON for each event."""
        return os.path.join(self._folder, "pserver.log")

    @property
    def data_path(self) -> str:
        """Its data directory, for psckpt; there is none with ``data=False``."""
        return os.path.join(self._folder, "data")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    def _listening(self) -> str:
        until = time.monotonic() + self._timeout
        while True:
            with open(self.log_path, encoding="utf-8", errors="replace") as log:
                text = log.read()
            for line in text.splitlines():
                if '"msg":"listening"' in line.replace(" ", "") and line.endswith("}"):
                    return str(json.loads(line)["address"])
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server did not start: {text[-2000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Ends the process as ``kill -9`` does, in the middle of whatever it is at."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Has the process stand still, as on a machine that hangs; returns when it does."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Has the process go on after ``pause()``."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the process as SIGTERM does: what is in flight is finished and saved."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def close(self) -> None:
        """Ends the process and removes its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Server:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
