import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.eclipse.jetty.server.Server;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBRequestHandler;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBServerHandler;

/** DynamoDB Local, in memory, on loopback. Its own main class listens on all interfaces, and has no option for that. */
public final class DynamoDbLocal {
    public static void main(final String[] arguments) throws Exception {
        final int port = Integer.parseInt(arguments[0]);
        final boolean inMemory = true;
        final boolean sharedByAllKeysAndRegions = true;
        final boolean slowTables = false;
        final var engine =
                new LocalDynamoDBRequestHandler(0, inMemory, null, sharedByAllKeysAndRegions, slowTables);
        final Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
        server.setHandler(new LocalDynamoDBServerHandler(engine, null));
        server.start();
        server.join();
    }
}
