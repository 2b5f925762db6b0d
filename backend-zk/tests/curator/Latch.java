import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.RetryOneTime;

/**
 * A Curator client that takes part in an election. It reads orders from its standard input, and answers each with a line.
 *
 * <p>Arguments: the server, its id, and the election's path.
 */
public class Latch {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 20_000, 15_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    // A participant that is not started only observes.
    LeaderLatch latch = new LeaderLatch(client, args[2], args[1]);
    say("ready");
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    for (String order; (order = orders.readLine()) != null; ) {
      switch (order) {
        case "start" -> {
          latch.start();
          say("started");
        }
        case "await" -> {
          latch.await();
          say("leads");
        }
        case "leads" -> say(latch.hasLeadership() ? "yes" : "no");
        case "leader" -> say(latch.getLeader().getId());
        case "all" -> say(latch.getParticipants().stream().map(Latch::shown).collect(Collectors.joining(" ")));
        case "close" -> {
          latch.close();
          latch = new LeaderLatch(client, args[2], args[1]);
          say("closed");
        }
        default -> say("what?");
      }
    }
    client.close();
  }

  private static String shown(Participant one) {
    return one.getId() + (one.isLeader() ? "*" : "");
  }

  private static void say(String word) {
    System.out.println(word);
    System.out.flush();
  }
}
