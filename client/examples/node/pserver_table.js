// SPDX-License-Identifier: Apache-2.0
// A table of float32: rows found by a key (a BigInt), as docs/wire.md, "Tables", says. What is left
// out: ranges of keys, and batches that are larger than a message.

const wrap = (value) => BigInt.asUintN(64, value);

// Which shard has a key; every client of the job must come to the same.
function shardOf(key, shards) {
  let x = wrap((key ^ (key >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = wrap((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return Number(((x ^ (x >> 31n)) * BigInt(shards)) >> 64n);
}

class Table {
  constructor(job, name, width) {
    Object.assign(this, { job, name, width });
  }

  // Defines the table at every shard; where it is already, nothing changes.
  static async define(job, name, width, optimizer) {
    const { OptimizerConfig } = job;
    const settings = OptimizerConfig.fromObject({ ...optimizer, table: { width } });
    const config = OptimizerConfig.encode(settings).finish();
    for (const shard of job.shards)
      await shard.change("DefineParam", { name, elementType: "FLOAT32", config });
    return new Table(job, name, width);
  }

  // For each shard the places of its keys.
  split(keys) {
    const places = this.job.shards.map(() => []);
    keys.forEach((key, place) => places[shardOf(key, places.length)].push(place));
    return places;
  }

  // Adds a gradient to each key's row. Each shard gets a push of its own.
  async add(keys, gradients) {
    for (const [shard, places] of this.split(keys).entries()) {
      const content = Buffer.alloc(places.length * (8 + 4 * this.width));
      let end = 0;
      for (const place of places) end = content.writeBigUInt64LE(keys[place], end);
      for (const place of places)
        for (const element of gradients[place]) end = content.writeFloatLE(element, end);
      const request = { name: this.name, elementType: "FLOAT32", encoding: "ENCODING_ROWS", content };
      request.rowWidth = this.width; // a table of another width refuses them
      await this.job.shards[shard].change("SendGrad", request);
    }
  }

  // The rows of the keys, in their order.
  async get(keys) {
    const rows = [];
    for (const [shard, places] of this.split(keys).entries()) {
      const wanted = Buffer.alloc(8 * places.length);
      places.forEach((place, i) => wanted.writeBigUInt64LE(keys[place], 8 * i));
      const request = { name: this.name, keys: wanted };
      const { content } = await this.job.shards[shard].send("GetParam", request);
      if (content.length !== places.length * 4 * this.width)
        throw new Error(`${this.name} has rows of another width`);
      const element = (i) => content.readFloatLE(4 * i);
      places.forEach((place, row) => {
        rows[place] = Array.from({ length: this.width }, (_, i) => element(row * this.width + i));
      });
    }
    return rows;
  }
}

module.exports = { Table };
