import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's mqadmin, one command after the other: a Java machine for each would take most of the
 * time. A line of standard input is a command, blank-separated; the answer is a JSON line with what
 * it printed, as Base64, behind which comes one with the key "done".
 */
public class Admin {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setProperty("rocketmq.namesrv.addr", arguments[0]);
        say(out, "\"done\":true");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            ByteArrayOutputStream shown = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(shown, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(line.split(" "), null);
            both.flush();
            String text = Base64.getEncoder().encodeToString(shown.toByteArray());
            say(out, "\"shown\":\"" + text + "\"");
            say(out, "\"done\":true");
        }
    }

    static void say(PrintStream out, String what) {
        out.println("{" + what + "}");
        out.flush();
    }
}
