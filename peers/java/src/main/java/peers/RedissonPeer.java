package peers;

import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** Redisson's recipes, on one client; the Redlock on one client for each server. */
final class RedissonPeer implements Peer.Client {
    private final List<RedissonClient> clients = new ArrayList<>();
    private final String recipe;

    private RedissonPeer(String recipe, boolean many) {
        this.recipe = recipe;
        String urls = Report.setting("REDIS_URL", "");
        if (recipe.equals("redlock-3")) {
            urls = Report.setting("REDIS_URLS", urls);
        }
        for (String url : urls.split(",")) {
            clients.add(Redisson.create(config(url, many)));
        }
    }

    static List<Peer> peers() {
        String version = Main.versionOf(Redisson.class);
        return Stream.of("lock", "fair-lock", "fenced-lock", "rw-write", "semaphore", "multi-3", "redlock-3",
                "atomic-long", "count-down-latch")
            .map(recipe -> new Peer("redisson-" + recipe, version, "redis", many -> new RedissonPeer(recipe, many)))
            .toList();
    }

    private static Config config(String url, boolean many) {
        Config config = new Config();
        SingleServerConfig server = config.useSingleServer().setAddress(url);
        if (many) {
            // If each of a hundred clients had its own threads, the results would measure the scheduler.
            config.setEventLoopGroup(Shared.LOOPS).setExecutor(Shared.EXECUTOR);
            server.setConnectionPoolSize(2).setConnectionMinimumIdleSize(1);
            server.setSubscriptionConnectionPoolSize(1).setSubscriptionConnectionMinimumIdleSize(1);
        }
        return config;
    }

    /** The resources that many clients of one process share. */
    private static final class Shared {
        static final EventLoopGroup LOOPS = new NioEventLoopGroup(4);
        static final ExecutorService EXECUTOR = Executors.newFixedThreadPool(16);
    }

    private RedissonClient client() {
        return clients.get(0);
    }

    @Override
    public Peer.Lock lock(String key) {
        String name = recipe + ":" + key;
        return switch (recipe) {
            case "lock" -> of(client().getLock(name));
            case "fair-lock" -> of(client().getFairLock(name));
            case "fenced-lock" -> of(client().getFencedLock(name));
            case "rw-write" -> of(client().getReadWriteLock(name).writeLock());
            case "semaphore" -> permit(client().getSemaphore(name));
            case "multi-3" -> of(client().getMultiLock(
                Stream.of("-a", "-b", "-c").map(end -> client().getLock(name + end)).toArray(RLock[]::new)));
            case "redlock-3" -> {
                if (clients.size() < 3) {
                    throw new IllegalStateException("REDIS_URLS names fewer than three servers");
                }
                yield of(new RedissonRedLock(clients.stream().map(each -> each.getLock(name)).toArray(RLock[]::new)));
            }
            default -> throw new UnsupportedOperationException();
        };
    }

    private static Peer.Lock of(RLock lock) {
        return new Peer.Lock() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static Peer.Lock permit(RSemaphore semaphore) {
        semaphore.trySetPermits(1);
        return new Peer.Lock() {
            @Override
            public void acquire() throws InterruptedException {
                semaphore.acquire();
            }

            @Override
            public void release() {
                semaphore.release();
            }
        };
    }

    @Override
    public Peer.Counter counter(String key) {
        RAtomicLong counter = client().getAtomicLong("counter:" + key);
        return new Peer.Counter() {
            @Override
            public void add(long number) {
                counter.addAndGet(number);
            }

            @Override
            public long get() {
                return counter.get();
            }
        };
    }

    @Override
    public Peer.Signal signal(String key) {
        return new Peer.Signal() {
            private RCountDownLatch of(int round) {
                return client().getCountDownLatch("latch:" + key + "-" + round);
            }

            @Override
            public void prepare(int round) {
                of(round).trySetCount(1);
            }

            @Override
            public void fire(int round) {
                of(round).countDown();
            }

            @Override
            public void await(int round) throws InterruptedException {
                of(round).await();
            }
        };
    }

    @Override
    public void close() {
        clients.forEach(RedissonClient::shutdown);
    }
}
