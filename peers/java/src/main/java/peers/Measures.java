package peers;

import static peers.Report.figures;
import static peers.Report.nanos;
import static peers.Report.print;
import static peers.Report.setting;
import static peers.Report.timed;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import peers.Report.Times;

/** The measures of one peer. The programs in other languages have the same logic. */
final class Measures {
    /** The tasks of M2. */
    private static final int TASKS = 64;
    /** The clients that add to one counter, wait for one latch, watch one value, or are candidates of one election. */
    private static final int CLIENTS = 16;
    /** The time in ms from the last waiter's request until the signal is fired. */
    private static final long SETTLE = 20;
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(20);

    private final Peer peer;

    Measures(Peer peer) {
        this.peer = peer;
    }

    void play(String measure) {
        try {
            switch (measure) {
                case "M1", "QUORUM" -> uncontended(measure);
                case "M2" -> throughput();
                case "M3" -> {
                    for (String contenders : setting("BENCH_W", "2,16,128").split(",")) {
                        handOffs("M3", Integer.parseInt(contenders), true);
                    }
                }
                case "ELECTION" -> handOffs("ELECTION", CLIENTS, true);
                case "COUNTER" -> {
                    counterAlone();
                    counterShared();
                }
                case "LATCH", "VALUE" -> signal(measure);
                default -> throw new IllegalArgumentException("no measure " + measure);
            }
        } catch (Throwable error) {
            Report.failed(peer, measure, error);
        }
    }

    /** Warms up: a virtual machine compiles frequently called code, and results before that mean nothing. */
    void warmUp(String measure) {
        if (measure.equals("M2")) {
            // M1 has already called the same code.
            return;
        }
        try (Peer.Client client = peer.opener().open(false)) {
            Doing once = switch (measure) {
                case "M1", "M3", "QUORUM" -> {
                    Peer.Lock lock = client.lock(freshKey("warm"));
                    yield () -> {
                        lock.acquire();
                        lock.release();
                    };
                }
                case "COUNTER" -> {
                    Peer.Counter counter = client.counter(freshKey("warm"));
                    yield () -> counter.add(1);
                }
                default -> () -> {};
            };
            long end = System.nanoTime() + nanos("BENCH_JVM_WARM", "6");
            for (int i = 0; i < 10_000 && System.nanoTime() < end; i++) {
                once.run();
            }
            if (measure.equals("M3")) {
                handOffs("M3", 4, false);
            }
        } catch (Throwable error) {
            Report.failed(peer, "warm-up", error);
        }
    }

    private interface Doing {
        void run() throws Exception;
    }

    private static String freshKey(String measure) {
        return measure.toLowerCase() + "-" + Long.toHexString(System.nanoTime());
    }

    private static long time() {
        return nanos("BENCH_SECS", "2");
    }

    private static long warm() {
        return nanos("BENCH_WARM", "0.5");
    }

    private static void sleep(long nanos) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(nanos);
    }

    private static Times timesOf(Doing once) throws Exception {
        Times times = new Times();
        long recorded = System.nanoTime() + warm();
        long end = recorded + time();
        for (long began; (began = System.nanoTime()) < end; ) {
            once.run();
            if (began >= recorded) {
                times.add(System.nanoTime() - began);
            }
        }
        return times;
    }

    private void uncontended(String measure) throws Exception {
        try (Peer.Client client = peer.opener().open(false)) {
            Peer.Lock lock = client.lock(freshKey("m1"));
            Times times = timesOf(() -> {
                lock.acquire();
                lock.release();
            });
            print(peer, measure, "1 task", "us", timed(times));
        }
    }

    private void counterAlone() throws Exception {
        try (Peer.Client client = peer.opener().open(false)) {
            Peer.Counter counter = client.counter(freshKey("counter"));
            print(peer, "COUNTER", "1 task", "us", timed(timesOf(() -> counter.add(1))));
        }
    }

    /** Plays tasks at the same time, and prints their rate per second. */
    private void rate(String measure, String param, String unit, List<Doing> tasks, Check check) throws Exception {
        AtomicLong done = new AtomicLong();
        AtomicBoolean over = new AtomicBoolean();
        Workers workers = new Workers();
        for (Doing task : tasks) {
            workers.start(() -> {
                while (!over.get()) {
                    task.run();
                    done.incrementAndGet();
                }
            });
        }
        sleep(warm());
        long before = done.get();
        long started = System.nanoTime();
        sleep(time());
        long n = done.get() - before;
        double seconds = (System.nanoTime() - started) / 1e9;
        over.set(true);
        String error = workers.join();
        String wrong = error == null ? check.wrong(done.get()) : error;
        print(peer, measure, param, unit, withError(figures("value", n / seconds, "n", n), wrong));
    }

    /** Returns the error after this number of operations; null if there is none. */
    private interface Check {
        String wrong(long done) throws Exception;
    }

    private void throughput() throws Exception {
        try (Peer.Client client = peer.opener().open(false)) {
            String key = freshKey("m2");
            List<Doing> tasks = new ArrayList<>();
            for (int task = 0; task < TASKS; task++) {
                Peer.Lock lock = client.lock(key + "-" + task);
                tasks.add(() -> {
                    lock.acquire();
                    lock.release();
                });
            }
            rate("M2", TASKS + " tasks", "pairs/s", tasks, done -> null);
        }
    }

    private void counterShared() throws Exception {
        try (Clients clients = new Clients(CLIENTS)) {
            String key = freshKey("counter");
            List<Peer.Counter> counters = new ArrayList<>();
            List<Doing> tasks = new ArrayList<>();
            for (Peer.Client client : clients.all) {
                Peer.Counter counter = client.counter(key);
                counters.add(counter);
                tasks.add(() -> counter.add(1));
            }
            rate("COUNTER_adds", "W=" + CLIENTS, "adds/s", tasks, done -> {
                long sum = counters.get(0).get();
                return sum == done ? null : "the counter is " + sum + " after " + done + " adds";
            });
        }
    }

    private void handOffs(String measure, int contenders, boolean report) throws Exception {
        try (Clients clients = new Clients(contenders)) {
            String key = freshKey(measure);
            Room room = new Room(contenders);
            Workers workers = new Workers();
            for (int i = 0; i < contenders; i++) {
                int contender = i;
                Peer.Lock lock = clients.all.get(i).lock(key);
                workers.start(() -> {
                    while (!room.isOver()) {
                        long asked = System.nanoTime();
                        lock.acquire();
                        room.enter(contender, asked);
                        room.leave();
                        lock.release();
                    }
                });
            }
            sleep(warm());
            room.record();
            long started = System.nanoTime();
            sleep(time());
            room.end();
            double seconds = (System.nanoTime() - started) / 1e9;
            String error = workers.join();
            if (report) {
                room.report(peer, measure, seconds, error);
            }
        }
    }

    /** Measures the time until the last waiter has the signal. */
    private void signal(String measure) throws Exception {
        try (Clients clients = new Clients(CLIENTS); Peer.Client firing = peer.opener().open(true)) {
            String key = freshKey(measure);
            Peer.Signal signal = firing.signal(key);
            CyclicBarrier begin = new CyclicBarrier(CLIENTS + 1);
            CyclicBarrier heard = new CyclicBarrier(CLIENTS + 1);
            AtomicBoolean over = new AtomicBoolean();
            AtomicLong last = new AtomicLong();
            Workers workers = new Workers();
            for (Peer.Client client : clients.all) {
                Peer.Signal waiting = client.signal(key);
                workers.start(() -> {
                    for (int round = 1; ; round++) {
                        begin.await();
                        if (over.get()) {
                            return;
                        }
                        waiting.await(round);
                        last.accumulateAndGet(System.nanoTime(), Math::max);
                        heard.await(20, TimeUnit.SECONDS);
                    }
                });
            }
            Times times = new Times();
            long recorded = System.nanoTime() + warm();
            for (int round = 1; System.nanoTime() < recorded + time(); round++) {
                signal.prepare(round);
                begin.await(20, TimeUnit.SECONDS);
                TimeUnit.MILLISECONDS.sleep(SETTLE);
                long fired = System.nanoTime();
                signal.fire(round);
                heard.await(20, TimeUnit.SECONDS);
                if (fired >= recorded) {
                    times.add(last.get() - fired);
                }
            }
            over.set(true);
            begin.await(20, TimeUnit.SECONDS);
            print(peer, measure, "N=" + CLIENTS, "us", withError(timed(times), workers.join()));
        }
    }

    private static Map<String, Object> withError(Map<String, Object> figures, String error) {
        if (error != null) {
            figures.put("error", error);
        }
        return figures;
    }

    /** Separate clients, which are closed in parallel. */
    private final class Clients implements AutoCloseable {
        final List<Peer.Client> all = new ArrayList<>();

        Clients(int count) throws Exception {
            for (int i = 0; i < count; i++) {
                all.add(peer.opener().open(true));
            }
        }

        @Override
        public void close() throws InterruptedException {
            ExecutorService closing = Executors.newFixedThreadPool(16);
            all.forEach(client -> closing.submit(client::close));
            closing.shutdown();
            closing.awaitTermination(30, TimeUnit.SECONDS);
        }
    }

    /** Threads, with the first error of one of them. */
    private static final class Workers {
        private final List<Thread> threads = new ArrayList<>();
        private final AtomicReference<String> error = new AtomicReference<>();

        void start(Doing doing) {
            Thread thread = new Thread(() -> {
                try {
                    doing.run();
                } catch (Throwable wrong) {
                    error.compareAndSet(null, wrong.toString());
                }
            });
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }

        String join() throws InterruptedException {
            long end = System.nanoTime() + PATIENCE;
            for (Thread thread : threads) {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
                if (thread.isAlive()) {
                    return "one has not come through 20 s after the end";
                }
            }
            return error.get();
        }
    }
}
