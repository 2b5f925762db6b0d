"""The servers of a run: the project's own program starts them with their default clocks."""

import os
import re
import socket
import subprocess
import urllib.request
from pathlib import Path

from .build import say

# The quorum needs three Redis servers; all other recipes use the first one.
KINDS = {"redis": "redis,redis,redis", "zookeeper": "zookeeper", "etcd": "etcd"}

# A run writes millions of revisions, which etcd keeps by default.
ETCD = {
    "ETCD_AUTO_COMPACTION_MODE": "revision",
    "ETCD_AUTO_COMPACTION_RETENTION": "10000",
    "ETCD_QUOTA_BACKEND_BYTES": str(8 << 30),
    "ETCD_LOG_LEVEL": "error",
}


class Servers:
    """Runs the servers until its block ends, and leaves out a kind that cannot be started."""

    def __init__(self, program, kinds, data):
        self.program, self.kinds = program, kinds
        memory = Path("/dev/shm")
        self.data = data or (memory if os.access(memory, os.W_OK) else None)
        self.started, self.urls = [], {}

    def __enter__(self):
        try:
            for kind in self.kinds:
                self._start(kind)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for serving in self.started:
            # The end of its input ends it too, if the signal is lost.
            serving.stdin.close()
            serving.terminate()
        for serving in self.started:
            serving.wait()

    def _start(self, kind):
        # The run does not use the servers of the environment.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LATCHWORK_")}
        # ./test unpacks the servers' programs here if it may not install them.
        unpacked = self.program.parent.parent / "servers" / "root"
        if unpacked.exists():
            environment["LATCHWORK_SERVER_DIR"] = str(unpacked)
        if self.data:
            environment["TMPDIR"] = str(self.data)
        command = [self.program, "serve", "--default-clocks", "--kinds", KINDS[kind]]
        serving = subprocess.Popen(command, env=environment | ETCD, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(serving)
        urls = []
        for line in serving.stdout:
            if found := re.match(r"export LATCHWORK_\w+_URL='\w+://(.*)'", line):
                urls.append(found[1])
            if line.startswith("# ready"):
                self.urls[kind] = urls
                return
        serving.wait()
        say(f"left out: {kind}: {serving.stderr.read().strip()}\n(./test fetches the servers' programs)")

    @property
    def environment(self):
        """Returns the variables with which the programs find the servers."""
        variables = {}
        if "redis" in self.urls:
            urls = [f"redis://{addr}" for addr in self.urls["redis"]]
            variables |= {"REDIS_URL": urls[0], "REDIS_URLS": ",".join(urls)}
        if "zookeeper" in self.urls:
            variables["ZK_ADDR"] = self.urls["zookeeper"][0]
        if "etcd" in self.urls:
            variables["ETCD_URL"] = f"http://{self.urls['etcd'][0]}"
        return variables

    def versions(self):
        """Returns the versions that the servers report."""
        asks = {"redis": _redis, "zookeeper": _zookeeper, "etcd": _etcd}
        return {kind: asks[kind](urls[0]) for kind, urls in self.urls.items()}


def _ask(addr, question):
    host, port = addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(question)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.decode()


def _found(pattern, text):
    found = re.search(pattern, text)
    return found[1] if found else "unknown"


def _redis(addr):
    return _found(r"redis_version:(\S+)", _ask(addr, b"INFO server\r\nQUIT\r\n"))


def _zookeeper(addr):
    return _found(r"version: ([\d.]+)", _ask(addr, b"srvr"))


def _etcd(addr):
    with urllib.request.urlopen(f"http://{addr}/version", timeout=5) as answer:
        return _found(r'"etcdserver":"([^"]+)"', answer.read().decode())
