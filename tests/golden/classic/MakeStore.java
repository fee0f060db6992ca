import java.net.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.common.*;
import org.apache.rocketmq.common.attribute.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.*;
import org.apache.rocketmq.store.config.*;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** make ROOT KIND : a small store, by the store's own code. */
public class MakeStore {
    static DefaultMessageStore open(String root, String kind, ConcurrentMap<String, TopicConfig> topics) throws Exception {
        MessageStoreConfig c = new MessageStoreConfig();
        c.setStorePathRootDir(root);
        c.setStorePathCommitLog(root + "/commitlog");
        c.setMappedFileSizeCommitLog(65536);
        c.setMappedFileSizeConsumeQueue(20 * 50);
        c.setMaxHashSlotNum(50); c.setMapperFileSizeBatchConsumeQueue(46 * 20);
        c.setMaxIndexNum(200);
        c.setTimerWheelEnable(false);
        c.setHaListenPort(25000 + new Random().nextInt(400));
        c.setMessageIndexEnable(true);
        c.setCleanFileForciblyEnable(false);
        c.setDiskMaxUsedSpaceRatio(99);
        c.setFlushConsumeQueueThoroughInterval(500);
        if (kind.contains("lmq")) { c.setEnableLmq(true); c.setEnableMultiDispatch(true); }
        if (kind.contains("ext")) { c.setEnableConsumeQueueExt(true); c.setMappedFileSizeConsumeQueueExt(4096); }
        if (kind.contains("rocksdb")) c.setStoreType("defaultRocksDB");
        if (kind.contains("nommap")) c.getClass().getMethod("setWriteWithoutMmap", boolean.class).invoke(c, true);
        BrokerConfig b = new BrokerConfig();
        b.setBrokerName("golden"); b.setBrokerIP1("127.0.0.1"); b.setBrokerIP2("127.0.0.1");
        BrokerStatsManager stats = new BrokerStatsManager("golden", true);
        MessageArrivingListener none = (t, q, o, code, ts, bits, p) -> { };
        DefaultMessageStore s = kind.contains("rocksdb")
            ? new RocksDBMessageStore(c, stats, none, b, topics) : new DefaultMessageStore(c, stats, none, b, topics);
        if (!s.load()) throw new IllegalStateException("load");
        s.start();
        return s;
    }
    static int number = 0;
    static MessageExtBrokerInner message(String topic, int queue, String tags, String keys, int size) {
        MessageExtBrokerInner m = new MessageExtBrokerInner();
        m.setTopic(topic); m.setQueueId(queue);
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) body[i] = (byte) ('a' + (number + i) % 26);
        m.setBody(body);
        if (tags != null) m.setTags(tags);
        if (keys != null) m.setKeys(keys);
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(new InetSocketAddress("127.0.0.1", 1234));
        m.setStoreHost(new InetSocketAddress("127.0.0.1", 10911));
        m.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, m.getTags()));
        number++;
        return m;
    }
    static void put(DefaultMessageStore s, MessageExtBrokerInner m) {
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        PutMessageResult r = s.putMessage(m);
        if (!r.isOk()) throw new IllegalStateException(m.getTopic() + " " + r);
    }
    public static void main(String[] a) throws Exception {
        String root = a[0], kind = a[1];
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        TopicConfig batch = new TopicConfig("Batch", 1, 1, 6);
        batch.setAttributes(new HashMap<>(Collections.singletonMap(TopicAttributes.QUEUE_TYPE_ATTRIBUTE.getName(), CQType.BatchCQ.toString())));
        topics.put("Batch", batch);
        for (String t : new String[] {"Plain", "Gone", "Again"}) topics.put(t, new TopicConfig(t, 2, 2, 6));
        DefaultMessageStore s = open(root, kind, topics);
        // Bytes of these stay in the buffers that later messages are written with, up to a page's end.
        if (kind.contains("nommap")) for (int i = 0; i < (kind.contains("roll") ? 80 : 40); i++) put(s, message("Plain", 0, null, null, 900));
        for (int i = 0; i < 12; i++) put(s, message("Plain", i % 2, i % 3 == 0 ? null : "tag" + i % 3, i % 4 == 0 ? null : "k" + i + " shared", 10 + i));
        if (!kind.equals("plain") && !kind.equals("killed")) {
            for (int i = 0; i < 5; i++) put(s, message("Gone", 0, "t", "g" + i, 20));
            for (int i = 0; i < 7; i++) put(s, message("Again", 0, "old", "o" + i, 30));
            Thread.sleep(1500);
            s.deleteTopics(new HashSet<>(Arrays.asList("Gone", "Again")));
            Thread.sleep(500);
            for (int i = 0; i < 4; i++) put(s, message("Again", 0, "new", "n" + i, 40));
        }
        if (kind.contains("lmq")) for (int i = 0; i < 3; i++) {
            MessageExtBrokerInner m = message("Plain", 1, "lmq", "l" + i, 25);
            MessageAccessor.putProperty(m, MessageConst.PROPERTY_INNER_MULTI_DISPATCH, i == 1 ? "%LMQ%one" : "%LMQ%one,%LMQ%two");
            put(s, m);
        }
        if (kind.contains("batch")) for (int i = 0; i < 3; i++) {
            MessageExtBrokerInner m = message("Batch", 0, "b", "bk" + i, 30);
            m.setSysFlag(m.getSysFlag() | MessageSysFlag.INNER_BATCH_FLAG);
            MessageAccessor.putProperty(m, MessageConst.PROPERTY_INNER_NUM, "" + (i + 2));
            put(s, m);
        }
        Thread.sleep(3000);
        if (kind.contains("killed")) { System.out.println("now"); Runtime.getRuntime().halt(9); }
        s.shutdown();
        System.out.println("max " + s.getMaxPhyOffset());
        System.exit(0);
    }
}
