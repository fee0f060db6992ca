import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.protocol.AppendEntryRequest;
import io.openmessaging.storage.dledger.protocol.DLedgerResponseCode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.Semaphore;

/**
 * One real DLedger node for the measurements: LedgerNode KEY=VALUE..., each a setter of
 * DLedgerConfig. A line on standard output says that it has started; then each line of standard
 * input is answered by a line of JSON:
 *
 *   end                        the index of its log's last entry, -1 if there is none
 *   load COUNT SECONDS SIZE    the leader's own callers: COUNT appends of SIZE bytes without an
 *                              answer all the time, one entry each
 */
public class LedgerNode {
    static final long WARM_UP_NS = 500_000_000L;    // WARM_UP_S of bench_load.py

    public static void main(String[] arguments) throws Exception {
        DLedgerConfig config = new DLedgerConfig();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            set(config, pair[0], pair[1]);
        }
        DLedgerServer server = new DLedgerServer(config);
        try {
            server.startup();
        } catch (Throwable error) {     // its threads would keep a node that has half started
            error.printStackTrace();
            System.exit(1);
        }
        System.out.println("{}");
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            if (words[0].equals("load"))
                System.out.println(load(server, config, Integer.parseInt(words[1]),
                    Double.parseDouble(words[2]), Integer.parseInt(words[3])));
            else
                System.out.println("{\"end\":" + server.getDLedgerStore().getLedgerEndIndex() + "}");
        }
        server.shutdown();
        System.exit(0);
    }

    /** One thread appends whenever there is room; the answers, on DLedger's threads, make room. */
    static String load(DLedgerServer server, DLedgerConfig config, int count, double seconds,
                       int size) throws Exception {
        long from = System.nanoTime() + WARM_UP_NS, until = from + (long) (seconds * 1e9);
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        Semaphore room = new Semaphore(count);
        Answers answers = new Answers(from, until);
        while (true) {
            room.acquire();
            long begin = System.nanoTime();
            if (begin >= until) break;
            AppendEntryRequest request = new AppendEntryRequest();
            request.setGroup(config.getGroup());
            request.setRemoteId(config.getSelfId());
            request.setBody(body);
            server.handleAppend(request).whenComplete((response, error) -> {
                boolean good = error == null
                    && response.getCode() == DLedgerResponseCode.SUCCESS.getCode();
                answers.add(begin, good);
                room.release();
            });
        }
        room.acquire(count - 1);    // all the others are answered
        return answers.figures(seconds);
    }

    /** How long each good append took, of those that were answered between two moments. */
    static class Answers {
        final long from, until;
        long[] times = new long[1 << 16];
        int count, refused;

        Answers(long from, long until) {
            this.from = from;
            this.until = until;
        }

        synchronized void add(long begin, boolean good) {
            long end = System.nanoTime();
            if (!good) refused++;
            else if (end >= from && end < until) {
                if (count == times.length) times = Arrays.copyOf(times, 2 * count);
                times[count++] = end - begin;
            }
        }

        synchronized String figures(double seconds) {
            String found = "{\"k_per_s\":" + count / seconds / 1e3 + ",\"refused\":" + refused;
            if (count == 0) return found + "}";
            Arrays.sort(times, 0, count);
            return found + ",\"p50_ms\":" + times[count / 2] / 1e6
                + ",\"p99_ms\":" + times[(int) (count * 99L / 100)] / 1e6 + "}";
        }
    }

    static void set(DLedgerConfig config, String key, String value) throws Exception {
        String name = "set" + Character.toUpperCase(key.charAt(0)) + key.substring(1);
        for (Method method : DLedgerConfig.class.getMethods()) {
            if (!method.getName().equals(name) || method.getParameterCount() != 1) continue;
            Class<?> type = method.getParameterTypes()[0];
            if (type == int.class) method.invoke(config, Integer.parseInt(value));
            else if (type == long.class) method.invoke(config, Long.parseLong(value));
            else if (type == boolean.class) method.invoke(config, Boolean.parseBoolean(value));
            else method.invoke(config, value);
            return;
        }
        throw new IllegalArgumentException("no setting " + key);
    }
}
