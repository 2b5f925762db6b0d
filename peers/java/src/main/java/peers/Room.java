package peers;

import static peers.Report.figures;
import static peers.Report.print;
import static peers.Report.timed;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.LongStream;
import peers.Report.Times;

/** The shared state of the contenders of one key. All are in one process, so there is one clock. */
final class Room {
    private final AtomicLongArray grants;
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger lastHolder = new AtomicInteger(-1);
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicLong selfRegrants = new AtomicLong();
    private final AtomicLong releasedAt = new AtomicLong();
    private final Times handOffs = new Times();
    private final Times waits = new Times();
    private volatile boolean recorded;
    private volatile boolean over;

    Room(int contenders) {
        grants = new AtomicLongArray(contenders);
    }

    void record() {
        recorded = true;
    }

    void end() {
        over = true;
    }

    boolean isOver() {
        return over;
    }

    void enter(int contender, long asked) {
        long now = System.nanoTime();
        if (inside.getAndIncrement() != 0) {
            overlaps.incrementAndGet();
        }
        int last = lastHolder.getAndSet(contender);
        if (!recorded || over) {
            return;
        }
        grants.incrementAndGet(contender);
        waits.add(now - asked);
        if (last == contender) {
            selfRegrants.incrementAndGet();
        } else if (last >= 0) {
            handOffs.add(now - releasedAt.get());
        }
    }

    void leave() {
        inside.getAndDecrement();
        releasedAt.set(System.nanoTime());
    }

    void report(Peer peer, String measure, double seconds, String error) {
        long[] each = LongStream.range(0, grants.length()).map(i -> grants.get((int) i)).toArray();
        long n = LongStream.of(each).sum();
        long least = LongStream.of(each).min().orElse(0);
        long most = LongStream.of(each).max().orElse(0);
        String param = "W=" + each.length;
        Map<String, Object> granted = figures("value", n / seconds, "n", n, "self_regrants", selfRegrants.get(),
            "overlaps", overlaps.get());
        if (error != null) {
            granted.put("error", error);
        }
        print(peer, measure + "_grants", param, "grants/s", granted);
        print(peer, measure + "_handoff", param, "us", timed(handOffs));
        print(peer, measure + "_wait", param, "us", timed(waits));
        print(peer, measure + "_fair", param, "max/min grants",
            figures("value", least > 0 ? (Double) ((double) most / least) : null, "min", least, "max", most,
                "starved", LongStream.of(each).filter(count -> count == 0).count(), "n", n));
    }
}
