// SPDX-License-Identifier: Apache-2.0
// A client that is safe to copy: every change is applied once, however often it is sent. The rules
// are in docs/wire.md ("Retrying safely") and docs/placement.md. What it leaves out: parameters
// above 16 MiB on several servers, ranges and batches; ../python/trainer.py has them.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");
const { randomBytes } = require("crypto");
const { attempt, connect, discover } = require("./pserver_discovery.js");

const SPLIT_BYTES = 16 << 20; // larger parameters are cut over all servers
const PATIENCE_MS = 60000; // of all attempts together: longer than a server may be away
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 2000;
const RIGHT_MS = 60000; // longer than giving the values takes; after a death the next waits so long
const TURN_MS = 5000; // that a server waits for this trainer's turn before it answers

// After these words of a server (`ps-status`) the same request is sent again. True: the word leaves
// open whether the request was applied.
const AGAIN_WORDS = {
  busy: false, not_owner: false, no_memory: true, unavailable: true, timeout: true, cancelled: true,
};

// The same for failures without a word, which gRPC made on the way. All of them leave it open.
const { UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, UNIMPLEMENTED } = grpc.status;
const AGAIN_CODES = [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN];

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const first = (error, key) => (error.metadata && error.metadata.get(key)[0]) || "";

// Half of a pause is by chance, so that not all clients of a server come back at once. The pause
// that a server asks for is kept whole.
function waitMs(attempt, asked) {
  const pause = Math.min(PAUSE_MIN_MS * 2 ** attempt, PAUSE_MAX_MS);
  return Math.max(pause / 2 + (Math.random() * pause) / 2, Number(asked));
}

async function firstAnswer(ask) {
  const giveUp = Date.now() + PATIENCE_MS;
  for (let count = 0; ; count++) {
    try {
      return await ask();
    } catch (error) {
      if (Date.now() > giveUp) throw error;
    }
    await sleep(waitMs(count, ""));
  }
}

// A shard of the job, and the three fields by which its server knows a repeat.
class Shard {
  constructor(Stub, seeds, index, addresses) {
    Object.assign(this, { Stub, seeds, index, address: addresses[index] });
    this.stub = connect(Stub, this.address);
    this.clientId = randomBytes(16); // of this process for this shard
    this.session = String(Date.now() * 1000); // begins with a time in microseconds: later is newer
    this.sequence = 0; // of the latest request
  }

  // In a batch each gradient has a number of its own, counted from the batch's.
  nextId(request) {
    const sequence = this.sequence + 1;
    this.sequence += request.grads ? request.grads.length : 1;
    return { clientId: this.clientId, session: this.session, sequence };
  }

  // To the shard's present server, if it has moved. The numbers stay: they are the shard's.
  async follow() {
    const addresses = await discover(this.Stub, this.seeds).catch(() => []);
    const address = addresses[this.index] || this.address;
    if (address === this.address) return;
    this.stub.close();
    this.stub = connect(this.Stub, address);
    this.address = address;
  }

  // Sends a request until it is answered: every repeat is the first attempt again.
  async send(method, request) {
    let isOpen = false; // an earlier attempt may have been applied
    const giveUp = Date.now() + PATIENCE_MS;
    for (let count = 0; ; count++) {
      try {
        return await attempt(this.stub, method, request);
      } catch (error) {
        error.word = first(error, "ps-status");
        const word = error.word;
        let isAgain = word === "" ? AGAIN_CODES.includes(error.code) : word in AGAIN_WORDS;
        // Forgotten by the server: a new number is right only if the old one was not applied.
        const named = first(error, "ps-session");
        if (word === "stale_session" && named !== "" && !isOpen) {
          [this.session, this.sequence] = [named, 0];
          request.request = this.nextId(request);
          isAgain = true;
        }
        isOpen = isOpen || word === "" || AGAIN_WORDS[word];
        const wait = waitMs(count, first(error, "grpc-retry-pushback-ms"));
        if (!isAgain || Date.now() + wait > giveUp) throw error;
        await sleep(wait);
        if (word !== "busy") await this.follow();
      }
    }
  }

  // The same for a request that changes something, under a new id.
  change(method, request) {
    return this.send(method, { ...request, request: this.nextId(request) });
  }
}

// Where the parameter `name` lives; every client of the job must come to the same.
function shardOf(name, shards, placement) {
  if (placement <= 1n) {
    let hash = 2166136261;
    for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 16777619);
    return (hash >>> 0) % shards;
  }
  const wrap = (value) => BigInt.asUintN(64, value);
  let z = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(name)) z = wrap((z ^ BigInt(byte)) * 0x100000001b3n);
  z = wrap(z + placement * 0x9e3779b97f4a7c15n);
  z = wrap((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return Number((z ^ (z >> 31n)) % BigInt(shards));
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
    const options = { includeDirs: [folder], defaults: true };
    const definition = loader.loadSync("pserver/v1/pserver.proto", options);
    const { ParameterServer } = grpc.loadPackageDefinition(definition).pserver.v1;
    const optimizers = protobuf.loadSync(`${folder}/pserver/v1/optimizer_config.proto`);
    const job = new Job();
    job.placement = 0n;
    job.OptimizerConfig = optimizers.lookupType("paddle.OptimizerConfig");
    const addresses = await firstAnswer(() => discover(ParameterServer, seeds));
    job.shards = addresses.map((_, i) => new Shard(ParameterServer, seeds, i, addresses));
    return job;
  }

  shardOf(name) {
    return this.shards[shardOf(name, this.shards.length, this.placement)];
  }

  // Gives the job its first values, if this trainer is the one of all that has the right to
  // (docs/discovery.md); returns when the job has them, of whomever.
  async initialise(parameters, optimizer) {
    const client = randomBytes(8).readBigUInt64LE().toString();
    // The classic rule, if nobody has decided on another.
    const ask = { client, ttlMs: RIGHT_MS, waitMs: TURN_MS, right: 0, placement: 1 };
    for (;;) {
      try {
        const { turn, right, lost, placement } = await this.shards[0].send("BeginInit", ask);
        ask.right = right;
        this.placement = BigInt(placement.toString());
        if (turn === 0) continue; // others are before this trainer
        if (turn === 2) return;
        await this.give(parameters, optimizer);
        return await this.shards[0].send("EndInit", { client, right, lost });
      } catch (error) {
        if (error.code === UNIMPLEMENTED) return this.give(parameters, optimizer); // older servers
        if (error.word === "stale_epoch") ask.right = 0; // the right was lost
        else if (error.word !== "conflict") throw error; // that is a shard which has begun anew
      }
    }
  }

  // Gives every shard its parameters, and ends the initialisation of those without any. A shard
  // that is initialised already stays as it is.
  async give(parameters, optimizer) {
    const { OptimizerConfig } = this;
    const config = OptimizerConfig.encode(OptimizerConfig.fromObject(optimizer)).finish();
    // Servers without etcd take a job whose first shard is initialised for initialised: that one last.
    for (const shard of [...this.shards].reverse()) {
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
      await shard.change("FinishInitParams", { epoch, placement: this.placement.toString() });
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
