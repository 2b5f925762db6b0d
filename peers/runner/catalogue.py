"""Every peer: its program, server and recipe, and the promises of Latchwork that it lacks."""

from dataclasses import dataclass

SERVERS = ("redis", "zookeeper", "etcd")
MEASURES = ("M1", "M2", "M3", "COUNTER", "LATCH", "VALUE", "ELECTION", "QUORUM")

# The measures of each group of recipes.
GROUPS = {
    "lock": ("M1", "M2", "M3"),
    "several locks": ("M1",),
    "counter": ("COUNTER",),
    "latch": ("LATCH",),
    "value": ("VALUE",),
    "election": ("ELECTION",),
    "quorum": ("QUORUM",),
}

SAME = ""
RAW = "all: requests without a lock's safety"
POLLS = "turn (it polls), fence"
ONCE = "at most once: an add whose reply is lost may count twice"


@dataclass(frozen=True)
class Peer:
    """One recipe of one library on one server."""
    name: str
    program: str
    server: str
    group: str
    # The recipe of Latchwork with which it is compared.
    beside: str
    # The promises of Latchwork that it lacks.
    lacks: str

    @property
    def is_ours(self):
        """Whether it is a recipe of Latchwork."""
        return self.program == "ours"

    def measures(self, wanted):
        """Returns its wanted measures."""
        return [measure for measure in GROUPS[self.group] if measure in wanted]


def _locks(server, program, rows):
    return [Peer(name, program, server, "lock", beside, lacks) for name, beside, lacks in rows]


QUORUM = "latchwork-quorum-3"


def _ours(server):
    locks = [(name, name, SAME) for name in ("latchwork-mutex", "latchwork-rw-write", "latchwork-semaphore")]
    # Three mutexes as one are measured together with the mutex.
    newer = [("several locks", "latchwork-multi-3")]
    newer += [(group, f"latchwork-{group}") for group in ("counter", "latch", "value", "election")]
    if server == "redis":
        newer.append(("quorum", QUORUM))
    return _locks(server, "ours", locks) + [Peer(name, "ours", server, group, name, SAME) for group, name in newer]


MUTEX, RW_WRITE, SEMAPHORE = "latchwork-mutex", "latchwork-rw-write", "latchwork-semaphore"
MULTI, COUNTER = "latchwork-multi-3", "latchwork-counter"

PEERS = [
    *(peer for server in SERVERS for peer in _ours(server)),
    *_locks("redis", "rust", [
        ("raw-redis", MUTEX, RAW),
        ("rslock", MUTEX, POLLS),
        ("distributed-lock", MUTEX, POLLS),
    ]),
    *_locks("redis", "go", [("redsync", MUTEX, POLLS)]),
    *_locks("redis", "python", [("redis-py-lock", MUTEX, POLLS)]),
    *_locks("redis", "java", [
        ("redisson-lock", MUTEX, "turn, fence"),
        ("redisson-fair-lock", MUTEX, "fence"),
        ("redisson-fenced-lock", MUTEX, "turn"),
        ("redisson-rw-write", RW_WRITE, "turn, fence"),
        ("redisson-semaphore", SEMAPHORE, "turn, lease: the permit of one that dies is gone"),
    ]),
    *_locks("zookeeper", "rust", [
        ("raw-zookeeper", MUTEX, RAW),
        ("zookeeper-client", MUTEX, "fence"),
    ]),
    *_locks("zookeeper", "java", [
        ("curator-mutex", MUTEX, "fence"),
        ("curator-semaphore-mutex", MUTEX, "fence"),
        ("curator-rw-write", RW_WRITE, "fence"),
        ("curator-semaphore-v2", SEMAPHORE, SAME),
    ]),
    *_locks("zookeeper", "python", [
        ("kazoo-lock", MUTEX, "fence"),
        ("kazoo-semaphore", SEMAPHORE, SAME),
    ]),
    *_locks("etcd", "rust", [
        ("raw-etcd", MUTEX, RAW),
        ("raw-etcd-longwatch", MUTEX, RAW),
        ("etcd-lock-api", MUTEX, "renewal, report of a loss"),
    ]),
    *_locks("etcd", "go", [("go-etcd-concurrency", MUTEX, SAME)]),
    Peer("redisson-multi-3", "java", "redis", "several locks", MULTI, "turn, fence"),
    Peer("redisson-redlock-3", "java", "redis", "quorum", QUORUM, "turn"),
    Peer("curator-multi-3", "java", "zookeeper", "several locks", MULTI,
         "fence, order: two that name the same locks in other orders deadlock"),
    Peer("redisson-atomic-long", "java", "redis", "counter", COUNTER, ONCE),
    Peer("redis-py-incrby", "python", "redis", "counter", COUNTER, ONCE),
    Peer("curator-atomic-long", "java", "zookeeper", "counter", COUNTER, ONCE),
    Peer("kazoo-counter", "python", "zookeeper", "counter", COUNTER, ONCE),
    Peer("redisson-count-down-latch", "java", "redis", "latch", "latchwork-latch",
         "at most once: a count whose reply is lost may count twice"),
    Peer("curator-shared-count", "java", "zookeeper", "value", "latchwork-value", SAME),
    Peer("curator-leader-latch", "java", "zookeeper", "election", "latchwork-election", "term"),
    Peer("go-etcd-election", "go", "etcd", "election", "latchwork-election", SAME),
]


def chosen(only, servers, measures):
    """Returns the peers to measure."""
    return [peer for peer in PEERS
            if peer.server in servers and peer.measures(measures) and (only is None or only.search(peer.name))]


def named(name, server):
    """Returns the peer of a line; a line of Latchwork has the server in its name too."""
    name = name.removesuffix(f"-{server}") if name.startswith("latchwork-") else name
    return next((peer for peer in PEERS if peer.name == name and peer.server == server), None)
