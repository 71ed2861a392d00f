// A client that is safe to copy: every change is applied once, however often it is sent. The rules
// are in docs/wire.md ("Retrying safely") and docs/placement.md. What it leaves out: parameters
// above 16 MiB on several servers, ranges and batches; ../python/trainer.py has them.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");
const { randomBytes } = require("crypto");
const { readFileSync } = require("fs");

const SPLIT_BYTES = 16 << 20; // larger parameters are cut over all servers
const MESSAGE_BYTES = 64 << 20; // of a reply; gRPC's own limit is 4 MiB
const ATTEMPT_MS = 10000; // then the same is sent again: the server may hang
const PATIENCE_MS = 60000; // of all attempts together: longer than a server may be away
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 2000;

// After these words of a server (`ps-status`) the same request is sent again. True: the word leaves
// open whether the request was applied.
const AGAIN_WORDS = {
  busy: false, not_owner: false, no_memory: true, unavailable: true, timeout: true, cancelled: true,
};

// The same for failures without a word, which gRPC made on the way. All of them leave it open.
const { UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN } = grpc.status;
const AGAIN_CODES = [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN];

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const first = (error, key) => (error.metadata && error.metadata.get(key)[0]) || "";

// Half of a pause is by chance, so that not all clients of a server come back at once. The pause
// that a server asks for is kept whole.
function waitMs(attempt, asked) {
  const pause = Math.min(PAUSE_MIN_MS * 2 ** attempt, PAUSE_MAX_MS);
  return Math.max(pause / 2 + (Math.random() * pause) / 2, Number(asked));
}

// TLS where PSCLIENT_TLS_CA names a file that says whom to believe; the names are those of
// libpsclient. A token goes with each call, and over TLS only.
function credentials() {
  const read = (name) => (process.env[name] ? readFileSync(process.env[name]) : null);
  const ca = read("PSCLIENT_TLS_CA");
  if (ca === null) return grpc.credentials.createInsecure();
  const tls = grpc.credentials.createSsl(ca, read("PSCLIENT_TLS_KEY"), read("PSCLIENT_TLS_CERT"));
  const token = read("PSCLIENT_TOKEN_FILE");
  if (token === null) return tls;
  const metadata = new grpc.Metadata();
  metadata.set("authorization", `Bearer ${token.toString().trim()}`);
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => done(null, metadata));
  return grpc.credentials.combineChannelCredentials(tls, bearer);
}

// A shard of the job, and the three fields by which its server knows a repeat.
class Shard {
  constructor(Stub, address) {
    const options = { "grpc.max_receive_message_length": MESSAGE_BYTES };
    this.stub = new Stub(address, credentials(), options);
    this.clientId = randomBytes(16); // of this process for this shard
    this.session = String(Date.now() * 1000); // begins with a time in microseconds: later is newer
    this.sequence = 0; // of the latest request
  }

  nextId() {
    return { clientId: this.clientId, session: this.session, sequence: ++this.sequence };
  }

  attempt(method, request) {
    return new Promise((resolve, reject) => {
      const done = (error, reply) => (error ? reject(error) : resolve(reply));
      this.stub[method](request, { deadline: Date.now() + ATTEMPT_MS }, done);
    });
  }

  // Sends a request until it is answered: every repeat is the first attempt again.
  async send(method, request) {
    let isOpen = false; // an earlier attempt may have been applied
    const giveUp = Date.now() + PATIENCE_MS;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.attempt(method, request);
      } catch (error) {
        error.word = first(error, "ps-status");
        const word = error.word;
        let isAgain = word === "" ? AGAIN_CODES.includes(error.code) : word in AGAIN_WORDS;
        // Forgotten by the server: a new number is right only if the old one was not applied.
        const named = first(error, "ps-session");
        if (word === "stale_session" && named !== "" && !isOpen) {
          [this.session, this.sequence] = [named, 0];
          request.request = this.nextId();
          isAgain = true;
        }
        isOpen = isOpen || word === "" || AGAIN_WORDS[word];
        const wait = waitMs(attempt, first(error, "grpc-retry-pushback-ms"));
        if (!isAgain || Date.now() + wait > giveUp) throw error;
        await sleep(wait);
      }
    }
  }

  // The same for a request that changes something, under a new id.
  change(method, request) {
    return this.send(method, { ...request, request: this.nextId() });
  }
}

// Where the parameter `name` lives; every client of the job must come to the same.
function shardOf(name, shards) {
  let hash = 2166136261;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 16777619);
  return (hash >>> 0) % shards;
}

// The address of each shard's server. Here the list says it; the one place to ask anything else.
async function discover(seeds) {
  return seeds;
}

// Elements are little-endian, packed.
function pack(values) {
  const content = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => content.writeFloatLE(value, 4 * i));
  return content;
}

class Job {
  // `folder` has the .proto files.
  static async open(seeds, folder) {
    const definition = loader.loadSync("pserver/v1/pserver.proto", { includeDirs: [folder] });
    const { ParameterServer } = grpc.loadPackageDefinition(definition).pserver.v1;
    const optimizers = protobuf.loadSync(`${folder}/pserver/v1/optimizer_config.proto`);
    const job = new Job();
    job.OptimizerConfig = optimizers.lookupType("paddle.OptimizerConfig");
    job.shards = (await discover(seeds)).map((address) => new Shard(ParameterServer, address));
    return job;
  }

  shardOf(name) {
    return this.shards[shardOf(name, this.shards.length)];
  }

  // Gives every shard its parameters, and ends the initialisation of those without any. A shard
  // that another trainer has initialised stays as it is.
  async initialise(parameters, optimizer) {
    const { OptimizerConfig } = this;
    const config = OptimizerConfig.encode(OptimizerConfig.fromObject(optimizer)).finish();
    for (const shard of this.shards) {
      let end;
      do end = await this.initialiseShard(shard, parameters, config);
      while (end === "stale_epoch"); // the server was lost with what it had been given
    }
  }

  async initialiseShard(shard, parameters, config) {
    let epoch = 0; // of the first: a server that was lost since then has another
    try {
      for (const [name, values] of Object.entries(parameters)) {
        const content = pack(values);
        if (this.shards.length > 1 && content.length > SPLIT_BYTES)
          throw new Error(`${name} is above 16 MiB: this client does not cut it`);
        if (this.shardOf(name) !== shard) continue;
        const parameter = { name, elementType: "FLOAT32", content, config };
        const given = await shard.change("InitParam", parameter);
        epoch = epoch || given.epoch;
      }
      await shard.change("FinishInitParams", { epoch });
      return "done";
    } catch (error) {
      if (error.word !== "exists" && error.word !== "stale_epoch") throw error;
      return error.word;
    }
  }

  push(name, gradient) {
    const request = { name, elementType: "FLOAT32", content: pack(gradient) };
    return this.shardOf(name).change("SendGrad", request);
  }

  async pull(name) {
    const { content } = await this.shardOf(name).send("GetParam", { name });
    return Array.from({ length: content.length / 4 }, (_, i) => content.readFloatLE(4 * i));
  }

  close() {
    this.shards.forEach((shard) => shard.stub.close());
  }
}

module.exports = { Job };
