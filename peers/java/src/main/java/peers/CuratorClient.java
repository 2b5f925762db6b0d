package peers;

import java.util.List;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryForever;

/** Curator's recipes, on one ZooKeeper client. */
final class CuratorClient implements Peer.Client {
    private static final int TIMEOUT = 30_000;

    private final CuratorFramework curator;
    private final String recipe;

    private CuratorClient(String recipe) throws InterruptedException {
        this.recipe = recipe;
        curator = CuratorFrameworkFactory.newClient(
            Report.setting("ZK_ADDR", ""), TIMEOUT, TIMEOUT, new ExponentialBackoffRetry(1000, 3));
        curator.start();
        curator.blockUntilConnected();
    }

    static List<Peer> peers() {
        String version = Main.versionOf(InterProcessMutex.class);
        return Stream.of("mutex", "semaphore-mutex", "rw-write", "semaphore-v2", "multi-3", "leader-latch",
                "atomic-long", "shared-count")
            .map(recipe -> new Peer("curator-" + recipe, version, "zookeeper", many -> new CuratorClient(recipe)))
            .toList();
    }

    @Override
    public Peer.Lock lock(String key) {
        String path = "/" + recipe + "/" + key;
        return switch (recipe) {
            case "mutex" -> of(new InterProcessMutex(curator, path));
            case "semaphore-mutex" -> of(new InterProcessSemaphoreMutex(curator, path));
            case "rw-write" -> of(new InterProcessReadWriteLock(curator, path).writeLock());
            case "multi-3" -> of(new InterProcessMultiLock(curator, List.of(path + "-a", path + "-b", path + "-c")));
            case "semaphore-v2" -> permit(new InterProcessSemaphoreV2(curator, path, 1));
            case "leader-latch" -> candidate(path);
            default -> throw new UnsupportedOperationException();
        };
    }

    private static Peer.Lock of(InterProcessLock lock) {
        return new Peer.Lock() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    private static Peer.Lock permit(InterProcessSemaphoreV2 semaphore) {
        return new Peer.Lock() {
            private Lease lease;

            @Override
            public void acquire() throws Exception {
                lease = semaphore.acquire();
            }

            @Override
            public void release() {
                semaphore.returnLease(lease);
            }
        };
    }

    /** Leads once and resigns; a closed latch cannot be a candidate again. */
    private Peer.Lock candidate(String path) {
        return new Peer.Lock() {
            private LeaderLatch latch;

            @Override
            public void acquire() throws Exception {
                latch = new LeaderLatch(curator, path);
                latch.start();
                latch.await();
            }

            @Override
            public void release() throws Exception {
                latch.close();
            }
        };
    }

    @Override
    public Peer.Counter counter(String key) {
        // Tries again until it succeeds, because a counter must not lose an add.
        DistributedAtomicLong counter = new DistributedAtomicLong(curator, "/counter/" + key, new RetryForever(1));
        return new Peer.Counter() {
            @Override
            public void add(long number) throws Exception {
                AtomicValue<Long> added = counter.add(number);
                if (!added.succeeded()) {
                    throw new IllegalStateException("not added");
                }
            }

            @Override
            public long get() throws Exception {
                return counter.get().postValue();
            }
        };
    }

    @Override
    public Peer.Signal signal(String key) throws Exception {
        return new WatchedCount(new SharedCount(curator, "/shared-count/" + key, 0));
    }

    @Override
    public void close() {
        curator.close();
    }

    /** A shared count. Waiters wait for its listener. */
    private static final class WatchedCount implements Peer.Signal, SharedCountListener {
        private final SharedCount count;
        private int seen;

        WatchedCount(SharedCount count) throws Exception {
            this.count = count;
            count.addListener(this);
            count.start();
        }

        @Override
        public void fire(int round) throws Exception {
            count.setCount(round);
        }

        @Override
        public synchronized void await(int round) throws InterruptedException {
            while (seen < round) {
                wait();
            }
        }

        @Override
        public synchronized void countHasChanged(SharedCountReader reader, int now) {
            seen = now;
            notifyAll();
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }
}
