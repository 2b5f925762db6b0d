import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator client whose threads acquire a read/write lock again and again, and report each hold. It ends after its
 * time.
 *
 * <p>Arguments: the server, the lock's path, the number of threads, the seconds.
 */
public class Soak {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 20_000, 15_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    long end = System.nanoTime() + Long.parseLong(args[3]) * 1_000_000_000L;
    List<Callable<Void>> work = new ArrayList<>();
    for (int thread = 0; thread < Integer.parseInt(args[2]); thread++) {
      int first = thread;
      work.add(() -> orHalt(() -> contend(new InterProcessReadWriteLock(client, args[1]), first, end)));
    }
    ExecutorService threads = Executors.newFixedThreadPool(work.size());
    for (Future<Void> done : threads.invokeAll(work)) {
      done.get();
    }
    threads.shutdown();
    client.close();
  }

  /** A thread that fails ends the whole process, because no caller reads its result. */
  private static Void orHalt(Callable<Void> work) {
    try {
      return work.call();
    } catch (Throwable failed) {
      failed.printStackTrace();
      Runtime.getRuntime().halt(1);
      return null;
    }
  }

  /** One time in four it writes. The clock is read after the admission and before the release. */
  private static Void contend(InterProcessReadWriteLock lock, int first, long end) throws Exception {
    for (int round = first; System.nanoTime() < end; round++) {
      boolean writes = round % 4 == 0;
      InterProcessLock side = writes ? lock.writeLock() : lock.readLock();
      side.acquire();
      long from = System.nanoTime();
      Thread.sleep(1);
      long to = System.nanoTime();
      side.release();
      System.out.printf(
          "{\"claim\":\"%s\",\"from\":%d,\"to\":%d}%n", writes ? "exclusive" : "shared", from, to);
    }
    return null;
  }
}
