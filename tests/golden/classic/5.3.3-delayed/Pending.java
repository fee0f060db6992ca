import java.util.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;

/** Delayed and half messages of all kinds, sent to a broker. */
public class Pending {
    static final String NS = System.getenv("NAMESRV"), TOPIC = "Orders";
    static DefaultMQProducer plain;
    static void delayed(int level, String key) throws Exception {
        Message m = new Message(TOPIC, level % 2 == 0 ? "even" : "odd", key, ("delayed by level " + level).getBytes());
        m.setDelayTimeLevel(level);
        System.out.println(key + " " + plain.send(m).getSendStatus());
    }
    static void send(String key) throws Exception {
        System.out.println(key + " " + plain.send(new Message(TOPIC, "now", key, "at once".getBytes())).getSendStatus());
    }
    public static void main(String[] a) throws Exception {
        plain = new DefaultMQProducer("P_plain");
        plain.setNamesrvAddr(NS); plain.setVipChannelEnabled(false); plain.setSendMsgTimeout(15000);
        plain.start();
        TransactionMQProducer tx = new TransactionMQProducer("P_tx");
        tx.setNamesrvAddr(NS); tx.setVipChannelEnabled(false);
        tx.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message m, Object said) { return (LocalTransactionState) said; }
            public LocalTransactionState checkLocalTransaction(MessageExt m) { return LocalTransactionState.UNKNOW; }
        });
        tx.start();
        LocalTransactionState[] says = {
            LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.UNKNOW };
        for (int round = 0; round < Integer.parseInt(a[0]); round++) {
            for (int level : new int[] {1, 2, 3, 4, 9, 3, 1}) delayed(level, "d" + round + "-" + level);
            for (int i = 0; i < 5; i++) {
                LocalTransactionState said = says[i % 3];
                Message m = new Message(TOPIC, "tx", "t" + round + "-" + i, ("half " + said).getBytes());
                System.out.println(m.getKeys() + " " + said + " " + tx.sendMessageInTransaction(m, said).getSendStatus());
            }
            send("n" + round);
            Thread.sleep(3500);
        }
        tx.shutdown(); plain.shutdown();
        System.exit(0);
    }
}
