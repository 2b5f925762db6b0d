import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * A Curator client that contends for a lock. It reads orders from its standard input, and answers each with a line.
 *
 * <p>Arguments: the server, {@code mutex}, {@code read} or {@code write}, and the lock's path.
 */
public class Contender {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 20_000, 15_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessLock lock = switch (args[1]) {
      case "read" -> new InterProcessReadWriteLock(client, args[2]).readLock();
      case "write" -> new InterProcessReadWriteLock(client, args[2]).writeLock();
      default -> new InterProcessMutex(client, args[2]);
    };
    say("ready");
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    for (String order; (order = orders.readLine()) != null; ) {
      switch (order.split(" ")[0]) {
        case "acquire" -> {
          lock.acquire();
          say("acquired");
        }
        case "try" -> say(lock.acquire(0, TimeUnit.SECONDS) ? "acquired" : "refused");
        case "release" -> {
          lock.release();
          say("released");
        }
        case "turns" -> say(turns(client, lock, args[2] + "-inside", Integer.parseInt(order.split(" ")[1])));
        default -> say("what?");
      }
    }
    client.close();
  }

  /** Acquires the lock this number of times. A holder creates a node, so that an overlap is detected. */
  private static String turns(CuratorFramework client, InterProcessLock lock, String inside, int count) throws Exception {
    for (int turn = 0; turn < count; turn++) {
      lock.acquire();
      try {
        client.create().withMode(CreateMode.EPHEMERAL).forPath(inside);
        client.delete().forPath(inside);
      } catch (KeeperException.NodeExistsException | KeeperException.NoNodeException overlap) {
        return "overlap";
      } finally {
        lock.release();
      }
    }
    return "done";
  }

  private static void say(String word) {
    System.out.println(word);
    System.out.flush();
  }
}
