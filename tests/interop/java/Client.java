import io.openmessaging.storage.dledger.client.DLedgerClient;
import io.openmessaging.storage.dledger.protocol.GetEntriesResponse;
import io.openmessaging.storage.dledger.protocol.RequestOrResponse;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * DLedger's own client: Client GROUP PEERS COUNT appends so many entries, each until it is
 * acknowledged, and then reads them. It prints what it was told: JSON lines with the keys "did",
 * "index" and "body" (in hex).
 */
public class Client {
    private static final int SUCCESS = 200;
    private static final int RETRY_PAUSE_MS = 100;
    private static final long GIVE_UP_NS = 40_000_000_000L;

    public static void main(String[] args) {
        try {
            run(new DLedgerClient(args[0], args[1]), Integer.parseInt(args[2]));
            System.exit(0);
        } catch (Exception e) { // the client's threads would keep the process in either case
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(DLedgerClient client, int count) throws Exception {
        client.startup();
        List<Long> indexes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] body = ("appended by Java " + i + " ").repeat(1 + i * 7 % 20).getBytes(StandardCharsets.UTF_8);
            long index = answered(() -> client.append(body)).getIndex();
            say("append", index, body);
            indexes.add(index);
        }
        for (long index : indexes) {
            GetEntriesResponse answer = answered(() -> client.get(index));
            if (answer.getEntries().size() != 1) {
                throw new IllegalStateException("get " + index + ": " + answer.getEntries().size() + " entries");
            }
            say("get", answer.getEntries().get(0).getIndex(), answer.getEntries().get(0).getBody());
        }
    }

    /**
     * It asks the first peer before it knows who leads, and is refused. Every 3 s it asks the
     * leader again who leads, and when that takes longer than 1.5 s it knows none for a while.
     */
    private static <T extends RequestOrResponse> T answered(Supplier<T> call) throws Exception {
        for (long begin = System.nanoTime();; Thread.sleep(RETRY_PAUSE_MS)) {
            T answer = call.get();
            if (answer.getCode() == SUCCESS) {
                return answer;
            }
            if (System.nanoTime() - begin > GIVE_UP_NS) {
                throw new IllegalStateException("no success: " + answer.getCode());
            }
        }
    }

    private static void say(String did, long index, byte[] body) {
        String hex = body.length == 0 ? "" : String.format("%0" + 2 * body.length + "x", new BigInteger(1, body));
        System.out.printf("{\"did\":\"%s\",\"index\":%d,\"body\":\"%s\"}%n", did, index, hex);
    }
}
