// A client that knows docs/row-format.md and nothing else of lambda_lock. It plays the scenarios of locks.json and
// events.json on an engine, by its own rules and with its own requests, and prints what it made of each step.
//
//     node client.mjs FILE URL TABLE-PREFIX
import { readFileSync } from "node:fs";

const [file, url, prefix] = process.argv.slice(2);
const GRACE = 2000, MARGIN = 1.5, DRIFT = 0.001;
const CONFLICT = /ConditionalCheckFailedException$/;

const SCHEMAS = {
  JAVA: {
    keys: ["key"], owner: "ownerName", lease: "leaseDuration", version: "recordVersionNumber", released: "isReleased",
    token: "fencingToken", ttl: "ttl", done: "completedUntil", foreign: "record_version_number",
    write: (ms) => ({ S: String(ms) }), read: (value) => (/^\d{1,19}$/.test(value?.S ?? "") ? Number(value.S) : 0),
  },
  GO: {
    keys: ["key"], owner: "ownerName", lease: "leaseDuration", version: "recordVersionNumber", released: "isReleased",
    token: "fencingToken", ttl: "ttl", done: "completedUntil", foreign: "record_version_number",
    write: (ms) => ({ S: ms % 1000 ? `${ms}ms` : `${ms / 1000}s` }), read: () => 0,
  },
  PYTHON: {
    keys: ["lock_key", "sort_key"], owner: "owner_name", lease: "lease_duration", version: "record_version_number",
    released: null, token: "fencing_token", ttl: "expiry_time", done: "completed_until", foreign: "recordVersionNumber",
    write: (ms) => ({ N: String(Math.floor(ms / 1000)) }), read: () => 0, ttlSeconds: 3600,
  },
};

async function post(operation, body) {
  const reply = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": `DynamoDB_20120810.${operation}`,
      Authorization: "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
    },
    body: JSON.stringify(body),
  });
  return { status: reply.status, body: await reply.json() };
}

const expiryOf = (version) => {
  const parts = /^L1:(\d{13}):[0-9a-f]{32}$/.exec(version ?? "");
  return parts ? Number(parts[1]) : null;
};

class Client {
  constructor(scenario, table, clock) {
    Object.assign(this, { schema: SCHEMAS[scenario.schema], table, clock, guess: null, seen: null, hold: null });
    this.key = Object.fromEntries(this.schema.keys.map((name, index) => [name, { S: index ? "-" : scenario.key }]));
  }

  // DynamoDB's time in ms: by the latest Date, or by the wall clock
  now(step) {
    if (!this.guess) return Math.floor((this.clock.epoch() + (step.clock_ahead ?? 0)) * 1000);
    return Math.floor((this.guess.date + 0.5 + this.clock.seconds - this.guess.at) * 1000);
  }

  // where the tokens of a new row start, in ms: by the wall clock, as far as the latest Date confirms it
  seed(step) {
    const wall = this.clock.epoch() + (step.clock_ahead ?? 0), low = this.guess && this.guess.date + this.clock.seconds - this.guess.at;
    const seed = Math.floor((this.guess ? Math.min(Math.max(wall, low), low + 1) : wall) * 1000), last = this.last ?? 0;
    return (this.last = seed <= last && last < seed + 1000 ? last + 1 : seed); // no two are equal
  }

  // a conditional write; null: no answer came
  async write(operation, { sets = [], removes = [], condition, values = {}, names = {}, returns }) {
    const update = (sets.length ? `SET ${sets.join(", ")} ` : "") + (removes.length ? `REMOVE ${removes.join(", ")}` : "");
    const text = `${update} ${condition}`;
    const all = { o: "owner", l: "lease", v: "version", i: "released", t: "token", e: "ttl", u: "done", f: "foreign" };
    const used = Object.entries(all).map(([short, field]) => [`#${short}`, this.schema[field]]);
    const body = {
      TableName: this.table, Key: this.key, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: "ALL_OLD",
      ExpressionAttributeNames: Object.fromEntries([...used, ...Object.entries(names)].filter(([name]) => new RegExp(`${name}\\b`).test(text))),
      ...(operation === "UpdateItem" ? { UpdateExpression: update.trim() } : {}), ...(returns ? { ReturnValues: "ALL_NEW" } : {}),
    };
    const given = Object.entries(values).filter(([name]) => new RegExp(`${name}\\b`).test(text));
    if (given.length) body.ExpressionAttributeValues = Object.fromEntries(given);
    const reply = await post(operation, body);
    if (this.clock.lost-- > 0) return null;
    const date = Math.floor(this.clock.epoch()); // the Date header, as the scenario's clock has it
    this.guess = { date, at: this.clock.seconds };
    if (reply.status === 200) return { ok: true, row: reply.body.Attributes, date };
    if (!CONFLICT.test(reply.body.__type)) throw new Error(JSON.stringify(reply.body));
    return { ok: false, row: reply.body.Item, date };
  }

  ttl(expiry, step, done = 0) {
    return { N: String(Math.max(Math.ceil(expiry / 1000), done) + (step.ttl ?? this.schema.ttlSeconds ?? 86400)) };
  }

  isFree(row) {
    return !row?.[this.schema.version] || (this.schema.released !== null && row[this.schema.released]?.S === "1");
  }

  async claim(step, observed, row, date) {
    const s = this.schema, now = this.now(step), expiry = now + GRACE + step.lease_ms, lease = step.lease_ms;
    const version = `L1:${String(expiry).padStart(13, "0")}:${this.clock.nonce()}`;
    const values = {
      ":o": { S: step.owner }, ":v": { S: version }, ":l": s.write(lease), ":seed": { N: String(this.seed(step)) }, ":one": { N: "1" },
      ":e": this.ttl(expiry, step, Number(row?.[s.done]?.N ?? 0)), ":seen": { S: observed ?? "" }, ":yes": { S: "1" },
    };
    const sets = ["#o = :o", "#v = :v", "#l = :l", "#t = if_not_exists(#t, :seed) + :one", "#e = :e"];
    const removes = s.released ? ["#i"] : [], names = {};
    const free = "attribute_not_exists(#v) AND attribute_not_exists(#f)";
    let condition = observed ? "#v = :seen" : s.released ? `(${free} OR #i = :yes)` : free;
    if (step.window) {
      const done = row?.[s.done];
      condition += done ? " AND #u = :done" : " AND attribute_not_exists(#u)";
      values[":done"] = done;
      if (done && date >= Number(done.N) + MARGIN) removes.push("#r"); // no front end says "done" any more
      names["#r"] = "result";
    }
    if (step.data) (sets.push("#d = :d"), (values[":d"] = { B: step.data }), (names["#d"] = "data"));
    for (const [index, [name, value]] of Object.entries(step.attributes ?? {}).entries())
      (sets.push(`#a${index} = :a${index}`), (values[`:a${index}`] = value), (names[`#a${index}`] = name));
    return { version, expiry, lease, request: { sets, removes, condition, values, names, returns: true } };
  }

  async acquire(step) {
    const s = this.schema, sent = new Map(), struck = new Set();
    let observed = null, row = null, date = null;
    for (let writes = 0; writes < 6; writes++) {
      const grant = await this.claim(step, observed, row, date), started = this.clock.seconds;
      sent.set(grant.version, { ...grant, started });
      let answer = await this.write("UpdateItem", grant.request);
      if (!answer && step.given_up) {
        await this.write("UpdateItem", {
          sets: ["#i = :yes"], condition: "#o = :o AND #v = :v AND attribute_not_exists(#i)",
          values: { ":yes": { S: "1" }, ":o": { S: step.owner }, ":v": { S: grant.version } },
        });
        return { "given up": true };
      }
      while (!answer) answer = await this.write("UpdateItem", grant.request); // the same body again
      ({ row, date } = answer);
      const version = row?.[s.version]?.S, mine = sent.get(version);
      if (mine && !this.isFree(row)) {
        const valid = Math.min(mine.lease / 1000, mine.expiry / 1000 - answer.date - MARGIN) * (1 - DRIFT);
        const fast = mine.expiry > answer.date * 1000 + mine.lease + 5000;
        if (!fast && !struck.has(version) && this.clock.seconds < mine.started + valid) {
          this.hold = { ...mine, owner: step.owner, token: row[s.token].N, step, done: Number(row[s.done]?.N ?? 0), valid };
          return { granted: { owner: step.owner, fencing_token: Number(row[s.token].N), valid_for: Number(valid.toFixed(3)) } };
        }
        struck.add(version);
        observed = version;
        continue;
      }
      const until = row?.[s.done] ? Number(row[s.done].N) : 0;
      if (step.window && until > answer.date) return { done: { until, result: row.result?.S ?? null } };
      if (!row?.[s.version] && row?.[s.foreign]) return { unreadable: true };
      if (this.isFree(row)) {
        observed = null;
        continue;
      }
      const lease = s.read(row[s.lease]), expiry = expiryOf(version);
      if (!lease) return { unreadable: true };
      if (this.seen?.version !== version || this.seen?.lease !== lease)
        this.seen = { version, lease, at: this.clock.seconds, date: answer.date };
      const unchanged = this.clock.seconds - this.seen.at >= (lease / 1000) * (1 + DRIFT);
      const byDates = answer.date - this.seen.date >= lease / 1000 + Math.max(2, MARGIN + lease / 1e6);
      if (!(expiry !== null && answer.date * 1000 >= expiry) && !unchanged && !byDates)
        return { "not granted": { holder: row[s.owner].S } };
      observed = version;
    }
    throw new Error("the answers contradict each other");
  }

  mine() {
    return `#o = :o AND #t = :t${this.schema.released ? " AND attribute_not_exists(#i)" : ""}`;
  }

  async renew(step) {
    const hold = this.hold, lease = step.lease_ms ?? hold.lease, expiry = Math.max(this.now(step) + GRACE + lease, hold.expiry + 1);
    const version = `L1:${expiry}:${this.clock.nonce()}`;
    const answer = await this.write("UpdateItem", {
      sets: ["#v = :v", "#l = :l", "#e = :e"], condition: `${this.mine()} AND #v < :v`,
      values: {
        ":v": { S: version }, ":l": this.schema.write(lease), ":e": this.ttl(expiry, hold.step, hold.done), ":o": { S: hold.owner },
        ":t": { N: hold.token },
      },
    });
    if (!answer.ok) return (hold.lost = true), { lost: true };
    const valid = Math.min(lease / 1000, expiry / 1000 - answer.date - MARGIN) * (1 - DRIFT);
    Object.assign(hold, { version, lease, expiry });
    return { renewed: { valid_for: Number(valid.toFixed(3)) } };
  }

  async release(step) {
    const hold = this.hold, s = this.schema, values = { ":o": { S: hold.owner }, ":t": { N: hold.token }, ":yes": { S: "1" } };
    const request = { sets: ["#i = :yes", "#e = :e"], removes: [], condition: this.mine(), values, names: {} };
    let done = hold.done;
    if (step.completed) {
      done = Math.ceil(this.now(step) / 1000) + hold.step.window;
      request.sets.push("#u = :u");
      values[":u"] = { N: String(done) };
      request.names["#r"] = "result";
      if (step.completed.result) (request.sets.push("#r = :r"), (values[":r"] = { S: step.completed.result }));
      else request.removes.push("#r");
    }
    if (step.data) (request.sets.push("#d = :d"), (values[":d"] = { B: step.data }), (request.names["#d"] = "data"));
    values[":e"] = this.ttl(hold.expiry, hold.step, done);
    const operation = hold.step.delete_on_release || !s.released ? "DeleteItem" : "UpdateItem";
    if (operation === "DeleteItem") Object.assign(request, { sets: [], removes: [] });
    let answer = await this.write(operation, request), unclear = false;
    while (!answer) ((unclear = true), (answer = await this.write(operation, request)));
    if (answer.ok) return { released: true };
    return { released: unclear && this.isFree(answer.row) && answer.row?.[s.token]?.N === hold.token };
  }
}

const NOW = 1800000000;
const results = [];
for (const [index, scenario] of JSON.parse(readFileSync(file)).scenarios.entries()) {
  const table = `${prefix}-${index}`, clients = {}, nonces = [...scenario.nonces], outcomes = [];
  const clock = { seconds: 0, lost: 0, epoch: () => NOW + clock.seconds, nonce: () => nonces.shift() };
  const put = (item) => post("PutItem", { TableName: table, Item: item });
  if (scenario.before) await put(scenario.before);
  for (const step of scenario.steps) {
    clock.seconds = Math.max(clock.seconds, step.at ?? 0);
    clock.lost = step.lost ?? 0;
    let outcome = {};
    const client = (clients[step.client ?? ""] ??= new Client(scenario, table, clock));
    if (step.act === "another writes") await put(step.item);
    else if (!client[step.act]) break; // it knows no forget
    else outcome = await client[step.act](step);
    const { body } = await post("GetItem", { TableName: table, Key: client.key, ConsistentRead: true });
    outcomes.push({ outcome, row: body.Item ?? null });
  }
  results.push(outcomes);
}
console.log(JSON.stringify(results));
