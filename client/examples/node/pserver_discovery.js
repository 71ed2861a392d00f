// SPDX-License-Identifier: Apache-2.0
// Where the servers of a job are, docs/discovery.md, and how to reach them.
const grpc = require("@grpc/grpc-js");
const { readFileSync } = require("fs");

const MESSAGE_BYTES = 64 << 20; // of a reply; gRPC's own limit is 4 MiB
const ATTEMPT_MS = 10000; // then the same is sent again: the server may hang
const { UNIMPLEMENTED } = grpc.status;

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

function connect(Stub, address) {
  const options = { "grpc.max_receive_message_length": MESSAGE_BYTES };
  return new Stub(address, credentials(), options);
}

function attempt(stub, method, request) {
  return new Promise((resolve, reject) => {
    const done = (error, reply) => (error ? reject(error) : resolve(reply));
    stub[method](request, { deadline: Date.now() + ATTEMPT_MS }, done);
  });
}

// The address of each shard's server, as the first seed that answers knows. Several servers without
// etcd do not know each other, and older ones nobody: then the seeds are the shards, in order.
async function discover(Stub, seeds) {
  let failure;
  for (const seed of seeds) {
    const stub = connect(Stub, seed);
    try {
      const { alone, members } = await attempt(stub, "GetCluster", {});
      if (alone && seeds.length > 1) return seeds;
      const addresses = members.map((member) => member.address);
      if (addresses.length > 0 && !addresses.includes("")) return addresses;
      failure = new Error("nobody serves one of the shards");
    } catch (error) {
      if (error.code === UNIMPLEMENTED) return seeds;
      failure = error;
    } finally {
      stub.close();
    }
  }
  throw failure;
}

module.exports = { attempt, connect, discover };
