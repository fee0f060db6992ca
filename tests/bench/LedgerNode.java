import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

/**
 * One real DLedger node for the measurements: LedgerNode KEY=VALUE..., each a setter of
 * DLedgerConfig. A line on standard output says that it has started; then each line of standard
 * input is answered by the index of its log's last entry, -1 if there is none.
 */
public class LedgerNode {
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
        while (lines.readLine() != null) {
            System.out.println("{\"end\":" + server.getDLedgerStore().getLedgerEndIndex() + "}");
        }
        server.shutdown();
        System.exit(0);
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
