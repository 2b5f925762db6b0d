"""Measures kazoo and redis-py: peers.py NAME… Each measure prints a line of JSON."""

import logging
import os
import sys

import kazoo
import kazoo.client
import redis

import measures
from report import setting


class Kazoo:
    """kazoo's recipes, on one ZooKeeper client."""
    server, version = "zookeeper", kazoo.__version__

    def __init__(self, recipe):
        self.recipe, self.name = recipe, f"kazoo-{recipe}"

    def open(self):
        """Opens a client with its session."""
        client = kazoo.client.KazooClient(hosts=setting("ZK_ADDR", ""), timeout=30)
        client.start(timeout=60)
        return client

    def lock(self, client, key):
        """Returns the functions that acquire and release."""
        path = f"/kazoo-{self.recipe}/{key}"
        if self.recipe == "lock":
            lock = client.Lock(path, "peer")
        else:
            lock = client.Semaphore(path, "peer", max_leases=1)
        return lock.acquire, lock.release

    def counter(self, client, key):
        """Returns the functions that add one and read."""
        counter = client.Counter(f"/kazoo-counter/{key}")
        return lambda: counter + 1, lambda: counter.value

    def close(self, client):
        """Ends the session."""
        client.stop()
        client.close()


class RedisPy:
    """redis-py: its lock, which asks again every 100 ms, and a plain INCRBY."""
    server, version = "redis", redis.__version__

    def __init__(self, recipe):
        self.recipe, self.name = recipe, f"redis-py-{recipe}"

    def open(self):
        """Returns a connected client."""
        client = redis.Redis.from_url(setting("REDIS_URL", ""))
        client.ping()
        return client

    def lock(self, client, key):
        """Returns the functions that acquire and release."""
        lock = client.lock(key, timeout=30, blocking_timeout=60)

        def acquire():
            if not lock.acquire():
                raise RuntimeError("not acquired within 60 s")

        return acquire, lock.release

    def counter(self, client, key):
        """Returns the functions that add one and read."""
        return lambda: client.incrby(key, 1), lambda: int(client.get(key))

    def close(self, client):
        """Disconnects."""
        client.close()


PEERS = [Kazoo("lock"), Kazoo("semaphore"), Kazoo("counter"), RedisPy("lock"), RedisPy("incrby")]


def main():
    """Plays the peers of the command line."""
    logging.disable(logging.CRITICAL)
    by_name = {peer.name: peer for peer in PEERS}
    for name in sys.argv[1:]:
        if name not in by_name:
            sys.exit(f"no peer {name!r}")
        for measure in setting("BENCH_MEASURES", "M1,M2,M3").split(","):
            measures.play(by_name[name], measure)
    sys.stdout.flush()
    # The threads of an open client would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
