// Initialises, pushes and pulls one parameter with plain grpc-js: ./run_node.sh HOST:PORT PROTO_FOLDER
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const { randomBytes } = require("crypto");
const { readFileSync } = require("fs");
const { promisify } = require("util");

const [address, folder] = process.argv.slice(2);
const definition = loader.loadSync("pserver/v1/pserver.proto", { includeDirs: [folder] });
const { ParameterServer } = grpc.loadPackageDefinition(definition).pserver.v1;

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

const server = new ParameterServer(address, credentials());

// With these three fields the server knows a repeat: it is applied once, however often it is sent.
const clientId = randomBytes(16); // one per process and server
const session = Date.now() * 1000; // begins with a time, in microseconds: a later one is newer
let sequence = 0; // one counter per server, 1 for the first request
const { UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, CANCELLED } = grpc.status;
const again = [UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, CANCELLED];

// Sends it until it is answered, always under the same id: docs/wire.md, "Retrying safely".
async function send(method, message) {
  const giveUp = Date.now() + 30000;
  for (let pause = 20; ; pause = Math.min(2 * pause, 2000)) {
    try {
      const call = promisify(server[method].bind(server));
      return await call(message, { deadline: Date.now() + 10000 });
    } catch (error) {
      if (!again.includes(error.code) || Date.now() + pause > giveUp) throw error;
    }
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

const exactlyOnce = (method, message) =>
  send(method, { ...message, request: { clientId, session, sequence: ++sequence } });
const pack = (values) => {
  const content = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => content.writeFloatLE(value, 4 * i));
  return content;
};

async function main() {
  try {
    // An empty configuration is SGD with learning rate 1.
    await exactlyOnce("InitParam", { name: "w", elementType: "FLOAT32", content: pack([1, 2, 3]) });
    await exactlyOnce("FinishInitParams", {});
  } catch (error) {
    if (error.code !== grpc.status.ALREADY_EXISTS) throw error; // another worker was first
  }
  const gradient = { name: "w", elementType: "FLOAT32", content: pack([0.5, 0.5, 0.5]) };
  const pushed = await exactlyOnce("SendGrad", gradient);
  const pulled = await send("GetParam", { name: "w" });
  console.log("version", pushed.version.toString());
  console.log("w =", ...[0, 1, 2].map((i) => pulled.content.readFloatLE(4 * i)));
  server.close();
}

main();
