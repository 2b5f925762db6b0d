package peers;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Lines of JSON, percentiles, and the parameters of the run. */
final class Report {
    private Report() {}

    static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** Returns a variable that is a number of seconds, in nanoseconds. */
    static long nanos(String name, String otherwise) {
        return (long) (Double.parseDouble(setting(name, otherwise)) * 1e9);
    }

    /** Figures of a line, as name, value, name, value. */
    static Map<String, Object> figures(Object... pairs) {
        Map<String, Object> figures = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            figures.put((String) pairs[i], pairs[i + 1]);
        }
        return figures;
    }

    static void print(Peer peer, String measure, String param, String unit, Map<String, Object> figures) {
        Map<String, Object> line = figures("peer", peer.name(), "version", peer.version(), "lang", "java",
            "server", peer.server(), "measure", measure, "param", param, "unit", unit);
        line.putAll(figures);
        StringBuilder json = new StringBuilder();
        line.forEach((name, value) ->
            json.append(json.isEmpty() ? "{" : ", ").append('"').append(name).append("\": ").append(json(value)));
        System.out.println(json.append('}'));
    }

    static void failed(Peer peer, String measure, Throwable error) {
        print(peer, measure, "", "", figures("error", error.toString()));
    }

    /** Returns p50, p99, the longest time in microseconds, and the number of times. */
    static Map<String, Object> timed(Times times) {
        double[] micros = times.sorted();
        int n = micros.length;
        if (n == 0) {
            return figures("p50", null, "p99", null, "max", null, "n", 0);
        }
        return figures("p50", micros[(int) (n * 0.5)], "p99", micros[Math.min((int) (n * 0.99), n - 1)],
            "max", micros[n - 1], "n", n);
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number) {
            return String.valueOf(value);
        }
        String text = value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
        return '"' + text + '"';
    }

    /** Times in microseconds, from any thread. */
    static final class Times {
        private double[] micros = new double[1 << 12];
        private int count;

        synchronized void add(long nanos) {
            if (count == micros.length) {
                micros = Arrays.copyOf(micros, 2 * count);
            }
            micros[count++] = nanos / 1e3;
        }

        synchronized double[] sorted() {
            double[] sorted = Arrays.copyOf(micros, count);
            Arrays.sort(sorted);
            return sorted;
        }
    }
}
