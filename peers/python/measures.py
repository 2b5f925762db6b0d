"""The measures of one peer. The programs in other languages have the same logic. M2 has 16 threads,
because more threads would only wait for each other here."""

import random
import threading
import time
from time import perf_counter

from report import seconds, setting, show, timed

TASKS = 16
CLIENTS = 16
PATIENCE = 20


def play(peer, measure):
    """Plays one measure, and prints an error as a line too."""
    try:
        if measure == "M1":
            uncontended(peer)
        elif measure == "M2":
            throughput(peer)
        elif measure == "M3":
            for contenders in setting("BENCH_W", "2,16,128").split(","):
                hand_offs(peer, int(contenders))
        elif measure == "COUNTER":
            counter_alone(peer)
            counter_shared(peer)
        else:
            raise ValueError(f"no measure {measure}")
    except Exception as error:  # any error of a library
        show(peer, measure, "", "", error=repr(error)[:300])


def fresh_key(measure):
    """Returns a key that no other run has."""
    return f"{measure}-{random.getrandbits(32):08x}"


def times_of(once):
    """Runs an operation repeatedly, and returns the durations."""
    times = []
    recorded = perf_counter() + seconds("BENCH_WARM", "0.5")
    end = recorded + seconds("BENCH_SECS", "2")
    while (began := perf_counter()) < end:
        once()
        if began >= recorded:
            times.append(perf_counter() - began)
    return times


def uncontended(peer):
    """M1."""
    with Clients(peer, 1) as clients:
        acquire, release = peer.lock(clients[0], fresh_key("m1"))

        def once():
            acquire()
            release()

        show(peer, "M1", "1 task", "us", **timed(times_of(once)))


def counter_alone(peer):
    """One client adds."""
    with Clients(peer, 1) as clients:
        add, _ = peer.counter(clients[0], fresh_key("counter"))
        show(peer, "COUNTER", "1 task", "us", **timed(times_of(add)))


def rate(peer, measure, param, unit, tasks, wrong=lambda done: None):
    """Plays tasks at the same time, and prints their rate per second."""
    done, over, workers = [0] * len(tasks), threading.Event(), Workers()

    def worker(number, task):
        while not over.is_set():
            task()
            done[number] += 1

    for number, task in enumerate(tasks):
        workers.start(worker, number, task)
    time.sleep(seconds("BENCH_WARM", "0.5"))
    before, started = sum(done), perf_counter()
    time.sleep(seconds("BENCH_SECS", "2"))
    n, took = sum(done) - before, perf_counter() - started
    over.set()
    error = workers.join() or wrong(sum(done))
    show(peer, measure, param, unit, value=n / took, n=n, **with_error(error))


def throughput(peer):
    """M2."""
    with Clients(peer, 1) as clients:
        key = fresh_key("m2")

        def pair(number):
            acquire, release = peer.lock(clients[0], f"{key}-{number}")

            def once():
                acquire()
                release()

            return once

        rate(peer, "M2", f"{TASKS} threads", "pairs/s", [pair(number) for number in range(TASKS)])


def counter_shared(peer):
    """Many clients add to one counter."""
    with Clients(peer, CLIENTS) as clients:
        key = fresh_key("counter")
        counters = [peer.counter(client, key) for client in clients]

        def wrong(done):
            got = counters[0][1]()
            return None if got == done else f"the counter is {got} after {done} adds"

        rate(peer, "COUNTER_adds", f"W={CLIENTS}", "adds/s", [add for add, _ in counters], wrong)


class Room:
    """The shared state of the contenders of one key; the lock itself protects it."""

    def __init__(self, contenders):
        self.recorded = self.over = False
        self.inside = self.overlaps = self.self_regrants = 0
        self.last_holder, self.released_at = None, 0.0
        self.grants = [0] * contenders
        self.hand_offs, self.waits = [], []

    def enter(self, contender, asked):
        """Records that a contender has acquired."""
        now = perf_counter()
        self.overlaps += self.inside > 0
        self.inside += 1
        last, self.last_holder = self.last_holder, contender
        if not self.recorded or self.over:
            return
        self.grants[contender] += 1
        self.waits.append(now - asked)
        if last == contender:
            self.self_regrants += 1
        elif last is not None:
            self.hand_offs.append(now - self.released_at)

    def leave(self):
        """Records that the holder is about to release."""
        self.inside -= 1
        self.released_at = perf_counter()


def hand_offs(peer, contenders):
    """M3."""
    with Clients(peer, contenders) as clients:
        key, room, workers = fresh_key("m3"), Room(contenders), Workers()

        def contend(contender, client):
            acquire, release = peer.lock(client, key)
            while not room.over:
                asked = perf_counter()
                acquire()
                room.enter(contender, asked)
                room.leave()
                release()

        for contender, client in enumerate(clients):
            workers.start(contend, contender, client)
        time.sleep(seconds("BENCH_WARM", "0.5"))
        room.recorded, started = True, perf_counter()
        time.sleep(seconds("BENCH_SECS", "2"))
        room.over, took = True, perf_counter() - started
        show_room(peer, room, took, workers.join())


def show_room(peer, room, took, error):
    """Prints the lines of M3."""
    param, n = f"W={len(room.grants)}", sum(room.grants)
    least, most = min(room.grants), max(room.grants)
    show(peer, "M3_grants", param, "grants/s", value=n / took, n=n, self_regrants=room.self_regrants,
         overlaps=room.overlaps, **with_error(error))
    show(peer, "M3_handoff", param, "us", **timed(room.hand_offs))
    show(peer, "M3_wait", param, "us", **timed(room.waits))
    show(peer, "M3_fair", param, "max/min grants", value=most / least if least else None, min=least, max=most,
         starved=room.grants.count(0), n=n)


def with_error(error):
    """Returns the additional field of a failed line."""
    return {"error": error} if error else {}


class Clients(list):
    """Separate clients."""

    def __init__(self, peer, count):
        super().__init__(peer.open() for _ in range(count))
        self.peer = peer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self:
            try:
                self.peer.close(client)
            except Exception:  # the results exist already
                pass


class Workers:
    """Threads, with the first error of one of them."""

    def __init__(self):
        self.threads, self.error = [], None

    def start(self, work, *arguments):
        """Starts a thread."""
        def run():
            try:
                work(*arguments)
            except Exception as error:  # any error of a library
                self.error = self.error or repr(error)[:300]

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def join(self):
        """Waits until all threads have ended, and returns the first error."""
        end = perf_counter() + PATIENCE
        for thread in self.threads:
            thread.join(max(0.01, end - perf_counter()))
            if thread.is_alive():
                return f"one has not come through {PATIENCE} s after the end"
        return self.error
