import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * RocketMQ's own producer under load, for the measurements of appends. One command per line of
 * standard input, answered by JSON lines of which the last has the key "done" or "failed":
 *
 *   tasks TOPIC COUNT BATCH SECONDS SIZE    COUNT threads that each send BATCH messages of SIZE
 *                                           bytes in one request and wait for SEND_OK, again
 *
 * A send that is not answered by SEND_OK is counted as refused, not as sent.
 */
public class Load {
    static final long WARM_UP_NS = 2_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P_load");
        producer.setNamesrvAddr(arguments[0]);
        producer.setVipChannelEnabled(false);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(15_000);
        producer.start();
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("\"done\":\"start\"");
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            try {
                run(producer, words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                    Double.parseDouble(words[4]), Integer.parseInt(words[5]));
                say("\"done\":\"tasks\"");
            } catch (Exception error) {
                error.printStackTrace();
                say("\"failed\":\"" + error.getClass().getSimpleName() + "\"");
            }
        }
        System.exit(0);     // the client's threads would keep the process
    }

    static void run(DefaultMQProducer producer, String topic, int count, int batch, double seconds,
                    int size) throws Exception {
        long from = System.nanoTime() + WARM_UP_NS, until = from + (long) (seconds * 1e9);
        AtomicInteger refused = new AtomicInteger();
        List<long[]> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(null, () -> {
                long[] times = send(producer, topic, batch, size, from, until, refused);
                synchronized (all) { all.add(times); }
            }, "sender " + i, 256 << 10);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        long[] times = all.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        if (times.length == 0) throw new IllegalStateException("nothing was sent");
        say(String.format("\"k_per_s\":%.4f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"refused\":%d",
            times.length * batch / seconds / 1e3, times[times.length / 2] / 1e6,
            times[(int) (times.length * 99L / 100)] / 1e6, refused.get()));
    }

    /** Returns the nanoseconds of each request that was answered between `from` and `until`. */
    static long[] send(DefaultMQProducer producer, String topic, int batch, int size, long from,
                       long until, AtomicInteger refused) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        long[] times = new long[1024];
        int sent = 0;
        for (long begin; (begin = System.nanoTime()) < until; ) {
            try {
                List<Message> messages = new ArrayList<>(batch);
                for (int i = 0; i < batch; i++) messages.add(new Message(topic, body));
                SendResult result = batch == 1 ? producer.send(messages.get(0))
                                               : producer.send(messages);
                if (result.getSendStatus() != SendStatus.SEND_OK)
                    throw new IllegalStateException(result.getSendStatus().toString());
            } catch (Exception error) {
                if (refused.getAndIncrement() == 0) error.printStackTrace();
                continue;
            }
            long end = System.nanoTime();
            if (end < from || end >= until) continue;
            if (sent == times.length) times = Arrays.copyOf(times, 2 * sent);
            times[sent++] = end - begin;
        }
        return Arrays.copyOf(times, sent);
    }

    static void say(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }
}
