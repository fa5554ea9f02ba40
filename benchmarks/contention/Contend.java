import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.core.interceptor.SdkExecutionAttribute;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * The Java lock client with its defaults, as crowd.py runs the others. Each worker is a client of its own, but all are
 * in one process: 64 JVMs would keep two cores busy for longer than a run lasts.
 */
public final class Contend {
    private static final class Requests implements ExecutionInterceptor {
        final AtomicInteger writes = new AtomicInteger();
        final AtomicInteger reads = new AtomicInteger();

        @Override
        public void beforeTransmission(final Context.BeforeTransmission context, final ExecutionAttributes attributes) {
            final String name = attributes.getAttribute(SdkExecutionAttribute.OPERATION_NAME);
            (name.equals("GetItem") || name.equals("Query") ? reads : writes).incrementAndGet();
        }
    }

    /** One wait: seconds of the clock that Python's time.monotonic reads. Zero: not yet. */
    private static final class Wait {
        final double asked = now();
        volatile double granted;
        volatile double ended;

        @Override
        public String toString() {
            return "[" + number(asked) + ",null," + number(granted) + "," + number(ended) + ",null]";
        }
    }

    private final Map<String, JsonNode> order;
    private final Requests requests = new Requests();
    private final CountDownLatch go = new CountDownLatch(1);
    private volatile boolean over;

    private Contend(final Map<String, JsonNode> order) {
        this.order = order;
    }

    public static void main(final String[] arguments) throws Exception {
        System.out.println("{\"ready\": true}");
        final BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(new Contend(JsonNode.parser().parse(line).asObject()).run());
        }
        System.exit(0);
    }

    private String run() throws Exception {
        final int workers = (int) number("workers");
        final DynamoDbClient dynamodb = DynamoDbClient.builder()
                .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL")))
                .httpClientBuilder(ApacheHttpClient.builder().maxConnections(2 * workers))
                .overrideConfiguration(settings -> settings.addExecutionInterceptor(requests))
                .build();
        final List<List<Wait>> waits = new ArrayList<>();
        final List<String> errors = new ArrayList<>();
        final List<Thread> threads = new ArrayList<>();
        final CountDownLatch ready = new CountDownLatch(workers);
        for (int number = 0; number < workers; number++) {
            final List<Wait> mine = new ArrayList<>();
            final Random random = new Random(order.get("seed").asString().hashCode() * 1000L + number);
            waits.add(mine);
            threads.add(new Thread(() -> work(dynamodb, random, mine, errors, ready)));
        }
        threads.forEach(Thread::start);
        ready.await();
        go.countDown();
        final double lead = 0.2 * number("seconds"); // not measured, as in crowd.py
        Thread.sleep(Math.round(lead * 1000));
        requests.writes.set(0);
        requests.reads.set(0);
        final double start = now();
        Thread.sleep(Math.round((number("seconds") - lead) * 1000));
        over = true;
        final double end = now();
        final int writes = requests.writes.get();
        final int reads = requests.reads.get();
        final List<String> said = new ArrayList<>();
        for (final List<Wait> mine : waits) {
            synchronized (mine) {
                said.add("{\"waits\":" + mine + ",\"writes\":0,\"reads\":0,\"removed\":0,\"errors\":[],\"cpu\":0}");
            }
        }
        threads.forEach(Thread::interrupt);
        for (final Thread thread : threads) {
            thread.join();
        }
        dynamodb.close();
        said.add("{\"waits\":[],\"writes\":" + writes + ",\"reads\":" + reads + ",\"removed\":0,\"errors\":["
                + String.join(",", errors) + "],\"cpu\":0}");
        return "{\"start\":" + number(start) + ",\"end\":" + number(end) + ",\"workers\":[" + String.join(",", said)
                + "]}";
    }

    private void work(
            final DynamoDbClient dynamodb,
            final Random random,
            final List<Wait> waits,
            final List<String> errors,
            final CountDownLatch ready) {
        try (AmazonDynamoDBLockClient client = new AmazonDynamoDBLockClient(
                AmazonDynamoDBLockClientOptions.builder(dynamodb, order.get("table").asString())
                        .withCreateHeartbeatBackgroundThread(true)
                        .build())) {
            client.acquireLock(AcquireLockOptions.builder("warm-" + random.nextLong()).build()).close();
            ready.countDown();
            go.await();
            while (!over) {
                final double hold = number("hold") * (order.get("exponential").asBoolean()
                        ? -Math.log(1 - random.nextDouble()) : 1);
                final Wait wait = new Wait();
                synchronized (waits) {
                    waits.add(wait);
                }
                final LockItem lock = client.acquireLock(AcquireLockOptions.builder(order.get("key").asString())
                        .withTimeUnit(TimeUnit.SECONDS)
                        .withAdditionalTimeToWaitForLock(600L)
                        .build());
                wait.granted = now();
                TimeUnit.NANOSECONDS.sleep(Math.round(hold * 1e9));
                wait.ended = now();
                lock.close();
                TimeUnit.NANOSECONDS.sleep(Math.round(number("pause") * 1e9));
            }
        } catch (final Exception error) {
            if (!over) {
                synchronized (errors) {
                    errors.add('"' + error.getClass().getSimpleName() + '"');
                }
            }
        }
    }

    private double number(final String name) {
        return Double.parseDouble(order.get(name).asNumber());
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private static String number(final double seconds) {
        return seconds == 0 ? "null" : String.format(Locale.ROOT, "%.9f", seconds);
    }
}
