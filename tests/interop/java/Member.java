import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.MemberState;
import java.lang.reflect.Method;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/**
 * One DLedger member: Member BIND_ADDRESS KEY=VALUE ..., one pair for each setter of DLedgerConfig.
 * "-" binds all addresses, which is all that 0.2.7 can; what else it lacks is looked up by name.
 * Whenever its role, term, leader, end or committed index has changed it prints a line.
 */
public class Member {
    private static final int LOOK_EVERY_MS = 20;

    public static void main(String[] args) throws Exception {
        DLedgerConfig config = new DLedgerConfig();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            set(config, pair[0], pair[1]);
        }
        DLedgerServer server = args[0].equals("-") ? new DLedgerServer(config) : bound(config, args[0]);
        try {
            server.startup();
        } catch (Throwable e) { // its threads would keep a member alive that has not started
            e.printStackTrace();
            System.exit(1);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
        for (String last = "";; Thread.sleep(LOOK_EVERY_MS)) {
            String now = state(server);
            if (!now.equals(last)) {
                System.out.println(now);
            }
            last = now;
        }
    }

    private static DLedgerServer bound(DLedgerConfig config, String address) throws Exception {
        NettyServerConfig listener = new NettyServerConfig();
        set(listener, "bindAddress", address);
        return DLedgerServer.class
            .getConstructor(DLedgerConfig.class, NettyServerConfig.class, NettyClientConfig.class)
            .newInstance(config, listener, new NettyClientConfig());
    }

    private static String state(DLedgerServer server) throws Exception {
        MemberState member = server.getMemberState();
        return "role=" + member.getRole() + " term=" + member.currTerm() + " leader=" + member.getLeaderId()
            + " begin=" + number(server, "getLedgerBeginIndex") + " end=" + number(server, "getLedgerEndIndex")
            + " committed=" + number(server, "getCommittedIndex");
    }

    /** The store says it, or, since 0.4.0, the member's state; "?" where neither does. */
    private static Object number(DLedgerServer server, String getter) throws Exception {
        for (Object holder : new Object[] {server.getdLedgerStore(), server.getMemberState()}) {
            try {
                return holder.getClass().getMethod(getter).invoke(holder);
            } catch (NoSuchMethodException e) { // the other one's
            }
        }
        return "?";
    }

    private static void set(Object target, String key, String value) throws Exception {
        String name = "set" + Character.toUpperCase(key.charAt(0)) + key.substring(1);
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                Object parsed = type == int.class ? Integer.valueOf(value)
                    : type == long.class ? Long.valueOf(value)
                    : type == boolean.class ? Boolean.valueOf(value) : value;
                method.invoke(target, parsed);
                return;
            }
        }
        throw new IllegalArgumentException("no setting " + key);
    }
}
