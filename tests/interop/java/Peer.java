import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.GetLockOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import com.amazonaws.services.dynamodbv2.ReleaseLockOptions;
import com.amazonaws.services.dynamodbv2.util.LockClientUtils;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.protocols.jsoncore.JsonWriter;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;

/** The Java lock client, driven over standard input and output: one JSON command and one JSON answer per line. */
public final class Peer {
    private final DynamoDbClient dynamodb =
            DynamoDbClient.builder().endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL"))).build();
    private final Map<String, LockItem> held = new HashMap<>();
    private final Random random = new Random();
    private AmazonDynamoDBLockClient renewing; // its background thread renews its locks
    private AmazonDynamoDBLockClient silent; // its locks are never renewed
    private long leaseMillis;
    private boolean sorted;

    public static void main(final String[] arguments) throws Exception {
        final Peer peer = new Peer();
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer(Map.of("ready", true));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answer(peer.obey(new Command(JsonNode.parser().parse(line).asObject())));
        }
        System.exit(0); // without waiting for the threads of the heartbeats
    }

    private Map<String, Object> obey(final Command command) throws InterruptedException {
        try {
            switch (command.text("do")) {
                case "open":
                    return open(command);
                case "close":
                    return close();
                case "acquire":
                    return acquire(command);
                case "release":
                    return release(command);
                case "read":
                    return read(command);
                case "list":
                    return Map.of("count", renewing.getAllLocksFromDynamoDB(false).count());
                case "count":
                    return count(command);
                default:
                    throw new IllegalArgumentException(command.text("do"));
            }
        } catch (final RuntimeException error) {
            return Map.of("error", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage()));
        }
    }

    private Map<String, Object> open(final Command command) {
        leaseMillis = command.millis("lease");
        sorted = command.has("sort_key_name");
        renewing = client(command, true);
        silent = client(command, false);
        return Map.of("opened", true);
    }

    /** Closes the clients, so that this process can be opened again. Starting a JVM takes longer than most tests. */
    private Map<String, Object> close() {
        held.clear();
        try {
            renewing.close();
            silent.close();
        } catch (final java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        return Map.of("closed", true);
    }

    private AmazonDynamoDBLockClient client(final Command command, final boolean heartbeat) {
        var options = AmazonDynamoDBLockClientOptions.builder(dynamodb, command.text("table"))
                .withTimeUnit(TimeUnit.MILLISECONDS)
                .withLeaseDuration(leaseMillis)
                .withHeartbeatPeriod(command.millis("heartbeat"))
                .withCreateHeartbeatBackgroundThread(heartbeat);
        if (sorted) {
            options = options.withSortKeyName(command.text("sort_key_name"));
        }
        return new AmazonDynamoDBLockClient(options.build());
    }

    private Map<String, Object> acquire(final Command command) throws InterruptedException {
        final AmazonDynamoDBLockClient client = command.is("silent") ? silent : renewing;
        var options = AcquireLockOptions.builder(command.text("key"))
                .withTimeUnit(TimeUnit.MILLISECONDS)
                .withRefreshPeriod(command.millis("refresh"))
                .withAdditionalTimeToWaitForLock(command.millis("wait"))
                .withShouldSkipBlockingWait(command.millis("wait") == 0)
                .withUpdateExistingLockRecord(command.is("update"))
                .withDeleteLockOnRelease(!command.is("keep"));
        if (sorted) {
            options = options.withSortKey(command.text("sort_key"));
        }
        if (command.has("data")) {
            options = options.withData(ByteBuffer.wrap(command.text("data").getBytes(StandardCharsets.UTF_8)));
        }
        if (command.has("attributes")) {
            final Map<String, AttributeValue> attributes = new HashMap<>();
            command.object("attributes").forEach((name, value) ->
                    attributes.put(name, AttributeValue.builder().s(value.asString()).build()));
            options = options.withAdditionalAttributes(attributes);
        }
        final LockItem lock = client.acquireLock(options.build());
        held.put(command.text("key"), lock);
        return granted(lock);
    }

    private static Map<String, Object> granted(final LockItem lock) {
        final Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("granted", true);
        answer.put("version", lock.getRecordVersionNumber());
        answer.put("data", lock.getData().map(Peer::text).orElse(null));
        return answer;
    }

    private Map<String, Object> release(final Command command) {
        final LockItem lock = held.remove(command.text("key"));
        final AmazonDynamoDBLockClient client = command.is("silent") ? silent : renewing;
        var options = ReleaseLockOptions.builder(lock).withDeleteLock(lock.getDeleteLockItemOnClose());
        if (command.has("data")) {
            options = options.withData(ByteBuffer.wrap(command.text("data").getBytes(StandardCharsets.UTF_8)));
        }
        return Map.of("released", client.releaseLock(options.build()));
    }

    private Map<String, Object> read(final Command command) {
        var options = GetLockOptions.builder(command.text("key"));
        if (sorted) {
            options = options.withSortKey(command.text("sort_key"));
        }
        final Optional<LockItem> found = renewing.getLockFromDynamoDB(options.build());
        if (found.isEmpty()) {
            return Map.of("absent", true);
        }
        final LockItem lock = found.get();
        final Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("owner", lock.getOwnerName());
        answer.put("version", lock.getRecordVersionNumber());
        answer.put("lease", lock.getLeaseDuration() / 1000.0);
        answer.put("data", lock.getData().map(Peer::text).orElse(null));
        answer.put("others", String.join(",", new TreeSet<>(lock.getAdditionalAttributes().keySet())));
        return answer;
    }

    /** Increments an unprotected counter under the lock, again and again. Now and then the lock is abandoned. */
    private Map<String, Object> count(final Command command) throws InterruptedException {
        final String key = command.text("key");
        final long end = System.nanoTime() + command.millis("seconds") * 1_000_000;
        int done = 0;
        int abandoned = 0;
        int refused = 0;
        while (System.nanoTime() < end) {
            final boolean abandon = random.nextDouble() < command.number("abandon");
            final AmazonDynamoDBLockClient client = abandon ? silent : renewing;
            final Optional<LockItem> lock = client.tryAcquireLock(AcquireLockOptions.builder(key)
                    .withTimeUnit(TimeUnit.MILLISECONDS)
                    .withRefreshPeriod(command.millis("refresh"))
                    .withAdditionalTimeToWaitForLock(command.millis("wait"))
                    .withUpdateExistingLockRecord(random.nextBoolean())
                    .withDeleteLockOnRelease(random.nextBoolean())
                    .build());
            if (lock.isEmpty()) {
                refused++;
                continue;
            }
            final long value = counter(command);
            Thread.sleep(Math.round(Math.pow(random.nextDouble(), 4) * leaseMillis / 2)); // now and then half a lease
            if (isFresh(lock.get())) {
                setCounter(command, value + 1);
                done++;
            }
            if (abandon) {
                abandoned++;
            } else {
                renewing.releaseLock(lock.get());
            }
            Thread.sleep(random.nextInt(80));
        }
        return Map.of("done", done, "abandoned", abandoned, "refused", refused);
    }

    /** Whether a write that follows is still within the lease. An application checks this before it writes. */
    private boolean isFresh(final LockItem lock) {
        return !lock.isExpired()
                && LockClientUtils.INSTANCE.millisecondTime() - lock.getLookupTime() < leaseMillis * 6 / 10;
    }

    private long counter(final Command command) {
        final var item = dynamodb.getItem(request -> request.tableName(command.text("counters"))
                .key(Map.of("key", AttributeValue.builder().s("counter").build()))
                .consistentRead(true));
        return item.hasItem() ? Long.parseLong(item.item().get("n").n()) : 0;
    }

    private void setCounter(final Command command, final long value) {
        dynamodb.putItem(request -> request.tableName(command.text("counters"))
                .item(Map.of(
                        "key", AttributeValue.builder().s("counter").build(),
                        "n", AttributeValue.builder().n(Long.toString(value)).build())));
    }

    private static String text(final ByteBuffer bytes) {
        return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
    }

    private static void answer(final Map<String, Object> fields) {
        final JsonWriter writer = JsonWriter.create();
        writer.writeStartObject();
        fields.forEach((name, value) -> {
            writer.writeFieldName(name);
            if (value == null) {
                writer.writeNull();
            } else if (value instanceof Boolean truth) {
                writer.writeValue(truth);
            } else if (value instanceof Number number) {
                writer.writeValue(number.doubleValue());
            } else {
                writer.writeValue(value.toString());
            }
        });
        writer.writeEndObject();
        System.out.println(new String(writer.getBytes(), StandardCharsets.UTF_8));
        System.out.flush();
    }

    /** One command, with access to its fields by name and type. */
    private record Command(Map<String, JsonNode> fields) {
        boolean has(final String name) {
            return fields.containsKey(name);
        }

        boolean is(final String name) {
            return has(name) && fields.get(name).asBoolean();
        }

        String text(final String name) {
            return fields.get(name).asString();
        }

        Map<String, JsonNode> object(final String name) {
            return fields.get(name).asObject();
        }

        double number(final String name) {
            return Double.parseDouble(fields.get(name).asNumber());
        }

        long millis(final String name) {
            return Math.round(number(name) * 1000);
        }
    }
}
