import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.eclipse.jetty.server.Server;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBRequestHandler;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBServerHandler;

/**
 * DynamoDB Local on loopback: its own main class listens on all interfaces, and has no option for that.
 *
 * Arguments: the port, and the folder for its data. Without a folder it keeps them in memory.
 */
public final class DynamoDbLocal {
    public static void main(final String[] arguments) throws Exception {
        final int port = Integer.parseInt(arguments[0]);
        final String folder = arguments.length > 1 ? arguments[1] : null;
        final boolean sharedByAllKeysAndRegions = true;
        final boolean slowTables = false;
        final var engine = new LocalDynamoDBRequestHandler(
                0, folder == null, folder, sharedByAllKeysAndRegions, slowTables);
        final Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        server.setHandler(new LocalDynamoDBServerHandler(engine, null));
        server.start(); // throws if another program has the port
        System.out.println(ProcessHandle.current().pid() + " listens");
        server.join();
    }
}
