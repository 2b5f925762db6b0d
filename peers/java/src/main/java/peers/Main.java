package peers;

import java.util.List;
import java.util.stream.Stream;

/** Measures Curator and Redisson: {@code Main NAME…}. Each measure prints a line of JSON. */
final class Main {
    private Main() {}

    public static void main(String[] names) {
        List<Peer> peers = Stream.concat(CuratorClient.peers().stream(), RedissonPeer.peers().stream()).toList();
        String[] measures = Report.setting("BENCH_MEASURES", "M1,M2,M3").split(",");
        for (String name : names) {
            Peer peer = peers.stream().filter(one -> one.name().equals(name)).findFirst().orElse(null);
            if (peer == null) {
                System.err.println("no peer " + name);
                System.exit(1);
            }
            Measures played = new Measures(peer);
            for (String measure : measures) {
                played.warmUp(measure);
                played.play(measure);
            }
        }
        // Some libraries do not end their threads.
        System.exit(0);
    }

    /** Returns the version of a library, from the name of its archive. */
    static String versionOf(Class<?> of) {
        String archive = of.getProtectionDomain().getCodeSource().getLocation().getPath();
        return archive.replaceAll(".*-(\\d[^/]*)\\.jar$", "$1");
    }
}
