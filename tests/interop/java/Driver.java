import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * RocketMQ's own client and decoder for the interoperability tests. One process serves many
 * commands: one per line of standard input, blank-separated; answers are JSON lines, the last one
 * has the key "done" or "failed".
 *
 *   send TOPIC FIRST SIZE,SIZE,...   one message per size, numbered from FIRST, to the topics of the
 *                                    list TOPIC in turn; a refused send is said and tried again
 *   once TOPIC FIRST SIZE,SIZE,...   the same, but a refused send is only said
 *   varied TOPIC                     one of each odd kind of message
 *   consume TOPIC COUNT SECONDS      reads all queues from the beginning to their ends; waits until
 *                                    COUNT messages came
 *   push GROUP COUNT SECONDS TOPICS  reads the topics of a list as a consumer group does, from where
 *                                    the group is, or else from the beginning; waits until COUNT
 *                                    messages came, and a while longer for more than that
 *   dump FOLDER                      every record of a commit log, as it is stored
 *
 * The body of message i is bytes (i, i + 1, ...) modulo 251, so that a reader can make it again.
 */
public class Driver {
    static final int BLANK_MAGIC = 0xCBD43194;
    static final int SEND_TIMEOUT_MS = 15_000;
    static final int RETRY_PAUSE_MS = 200;
    static final int ROUTE_EVERY_MS = 1_000;    // upstream: 30 s, for which it would miss a new master
    static final int PULL_MESSAGES = 32;
    static final int MORE_MS = 3_000;
    static final long RETRY_FOR_NS = 60_000_000_000L;

    final String nameServer;
    final Map<String, DefaultMQProducer> producers = new HashMap<>();

    Driver(String nameServer) {
        this.nameServer = nameServer;
    }

    public static void main(String[] arguments) throws Exception {
        Driver driver = new Driver(arguments[0]);
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("\"done\":\"start\"");
        for (String line; (line = commands.readLine()) != null; ) {
            try {
                driver.obey(line.split(" "));
                say("\"done\":" + quote(line.split(" ")[0]));
            } catch (Exception error) {
                error.printStackTrace();
                say("\"failed\":" + quote(error.toString()));
            }
        }
        System.exit(0);     // the clients' threads would keep the process
    }

    void obey(String[] words) throws Exception {
        switch (words[0]) {
            case "send":
                send(words[1].split(","), Integer.parseInt(words[2]), words[3], true);
                break;
            case "once":
                send(words[1].split(","), Integer.parseInt(words[2]), words[3], false);
                break;
            case "varied": varied(words[1]); break;
            case "consume":
                consume(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                break;
            case "push":
                push(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), words[4]);
                break;
            case "dump": dump(Path.of(words[1])); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** One producer per topic, kept: it still knows the way to a broker that was away. */
    DefaultMQProducer producer(String topic) throws Exception {
        DefaultMQProducer producer = producers.get(topic);
        if (producer == null) {
            producer = new DefaultMQProducer("P_" + topic);
            producer.setRetryTimesWhenSendFailed(0);
            open(producer, topic);
            producers.put(topic, producer);
        }
        return producer;
    }

    void open(DefaultMQProducer producer, String topic) throws Exception {
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(producer.getProducerGroup());
        producer.setVipChannelEnabled(false);
        producer.setPollNameServerInterval(ROUTE_EVERY_MS);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);   // store bodies as they are
        producer.start();
    }

    /** To each topic in turn. */
    void send(String[] topics, int first, String sizes, boolean again) throws Exception {
        DefaultMQProducer producer = producer(topics[0]);
        int number = first;
        for (String size : sizes.split(",")) {
            byte[] body = body(Integer.parseInt(size), number);
            String topic = topics[number % topics.length];
            Message message = new Message(topic, "tag" + number % 3, "key" + number, body);
            message.putUserProperty("number", "" + number);
            message.setFlag(number);
            long begin = System.nanoTime();
            for (boolean open = true; open; ) {
                try {
                    report(number, producer.send(message), begin);
                    open = false;
                } catch (Exception error) {
                    String why = quote(error.toString());
                    String format = "\"number\":%d,\"error\":%s,\"ms\":%d";
                    say(String.format(format, number, why, millis(begin)));
                    open = again && System.nanoTime() - begin < RETRY_FOR_NS;
                    if (open) Thread.sleep(RETRY_PAUSE_MS);
                }
            }
            number++;
        }
    }

    void varied(String topic) throws Exception {
        DefaultMQProducer producer = producer(topic);
        long begin = System.nanoTime();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) batch.add(new Message(topic, "a", "b" + i, body(10 + i, i)));
        report(0, producer.send(batch), begin);
        Message delayed = new Message(topic, "delayed", "d", body(64, 1));
        delayed.setDelayTimeLevel(1);
        report(1, producer.send(delayed), begin);
        byte[] text = "na\u00efve \u4f60\u597d".getBytes(StandardCharsets.UTF_8);
        Message odd = new Message(topic, "\u00e9t\u00e9", "k1 k2 k3", text);
        odd.putUserProperty("sch\u00f6n", "\u503c \ud83d\ude80");
        odd.setFlag(-1);
        odd.setWaitStoreMsgOK(false);
        report(2, producer.send(odd), begin);
        report(3, producer.send(new Message(topic, body(5, 9))), begin);
        producer.setCompressMsgBodyOverHowmuch(1000);
        report(4, producer.send(new Message(topic, "zip", "z", body(3000, 3))), begin);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        TransactionMQProducer transactions = new TransactionMQProducer("T_" + topic);
        transactions.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object yes) {
                if ((Boolean) yes) return LocalTransactionState.COMMIT_MESSAGE;
                return LocalTransactionState.ROLLBACK_MESSAGE;
            }
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        open(transactions, topic);
        Message committed = new Message(topic, "tx", "t1", body(20, 4));
        report(5, transactions.sendMessageInTransaction(committed, true), begin);
        Message rolledBack = new Message(topic, "tx", "t2", body(21, 5));
        report(6, transactions.sendMessageInTransaction(rolledBack, false), begin);
        transactions.shutdown();
    }

    /**
     * Pulls every queue by offset, pass after pass, until a whole pass brings nothing more.
     *
     * Not by DefaultLitePullConsumer, which loses messages when it is told to seek: assigning has
     * its threads pull already, and seek interrupts the thread that last pulled this queue, though
     * it may by now pull another one. That other queue then goes on where its first pulls, thrown
     * away by its own seek, had come to.
     */
    void consume(String topic, int count, int seconds) throws Exception {
        long begin = System.nanoTime();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("C_" + topic + "_" + begin);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(consumer.getConsumerGroup());
        consumer.setVipChannelEnabled(false);
        consumer.start();
        try {
            Map<MessageQueue, Long> next = new HashMap<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) next.put(queue, 0L);
            long end = begin + seconds * 1_000_000_000L;
            for (int got = 0, came = -1; came != 0 || got < count && System.nanoTime() < end; ) {
                if (came == 0) Thread.sleep(RETRY_PAUSE_MS);
                came = 0;
                for (MessageQueue queue : next.keySet()) came += pull(consumer, queue, next, end);
                got += came;
            }
        } finally {
            consumer.shutdown();
        }
    }

    void push(String group, int count, int seconds, String topics) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        AtomicInteger got = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(group + "_" + end);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : topics.split(",")) consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                synchronized (got) {
                    say(described(message));
                }
                got.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (got.get() < count && System.nanoTime() < end) Thread.sleep(RETRY_PAUSE_MS);
        Thread.sleep(MORE_MS);
        consumer.shutdown();    // tells the broker where it is
    }

    static String described(MessageExt message) {
        try {
            return describe(message);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Says what comes next in a queue, and how much that was. */
    static int pull(DefaultMQPullConsumer consumer, MessageQueue queue, Map<MessageQueue, Long> next,
        long end) throws Exception {
        long offset = next.get(queue);
        PullResult result = null;
        while (result == null) {
            try {
                result = consumer.pull(queue, "*", offset, PULL_MESSAGES);
            } catch (MQClientException | RemotingException | MQBrokerException error) {
                if (System.nanoTime() > end) throw error;
                error.printStackTrace();
                Thread.sleep(RETRY_PAUSE_MS);
            }
        }
        if (result.getPullStatus() == PullStatus.NO_NEW_MSG) return 0;
        if (result.getNextBeginOffset() < offset) {     // the queue ends before what has been read
            throw new IllegalStateException(queue + " at " + offset + ": " + result);
        }
        next.put(queue, result.getNextBeginOffset());
        if (result.getPullStatus() != PullStatus.FOUND) return 0;
        for (MessageExt message : result.getMsgFoundList()) say(describe(message));
        return result.getMsgFoundList().size();
    }

    static void dump(Path folder) throws Exception {
        List<Path> files = new ArrayList<>();
        try (DirectoryStream<Path> names = Files.newDirectoryStream(folder)) {
            for (Path file : names) files.add(file);
        }
        Collections.sort(files);
        for (Path file : files) {
            ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(file));
            while (all.remaining() >= 8) {
                int at = all.position(), size = all.getInt(at);
                if (size == 0 || all.getInt(at + 4) == BLANK_MAGIC) break;
                byte[] one = new byte[size];
                all.get(one);
                // The last argument: not uncompressed, as it is stored.
                MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(one), true, false);
                if (message == null) throw new IllegalStateException(file + ": no record at " + at);
                say(describe(message));
            }
        }
    }

    static void report(int number, SendResult result, long begin) {
        String format = "\"number\":%d,\"status\":\"%s\",\"queueId\":%d,\"ms\":%d";
        int queue = result.getMessageQueue().getQueueId();
        say(String.format(format, number, result.getSendStatus(), queue, millis(begin)));
    }

    static String describe(MessageExt message) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(message.getBody());
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> entry : new TreeMap<>(message.getProperties()).entrySet()) {
            properties.append(properties.length() == 0 ? "" : ",");
            properties.append(quote(entry.getKey())).append(":").append(quote(entry.getValue()));
        }
        String format = "\"physicalOffset\":%d,\"size\":%d,\"topic\":%s,\"queueId\":%d,"
            + "\"queueOffset\":%d,\"flag\":%d,\"sysFlag\":%d,\"bodyBytes\":%d,"
            + "\"bodySha256\":\"%064x\",\"bornTimestamp\":%d,\"storeTimestamp\":%d,"
            + "\"properties\":{%s}";
        return String.format(format, message.getCommitLogOffset(), message.getStoreSize(),
            quote(message.getTopic()), message.getQueueId(), message.getQueueOffset(),
            message.getFlag(), message.getSysFlag(), message.getBody().length,
            new BigInteger(1, digest), message.getBornTimestamp(), message.getStoreTimestamp(),
            properties);
    }

    static byte[] body(int size, int first) {
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) body[i] = (byte) ((first + i) % 251);
        return body;
    }

    static long millis(long begin) {
        return (System.nanoTime() - begin) / 1_000_000;
    }

    static void say(String fields) {
        System.out.println("{" + fields + "}");
        System.out.flush();
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') quoted.append('\\').append(c);
            else if (c < 32 || c > 126) quoted.append(String.format("\\u%04x", (int) c));
            else quoted.append(c);
        }
        return quoted.append('"').toString();
    }
}
