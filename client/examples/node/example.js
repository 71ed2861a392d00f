// Initialises, pushes and pulls one parameter with plain grpc-js: ./run_node.sh HOST:PORT PROTO_FOLDER
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const { promisify } = require("util");

const [address, folder] = process.argv.slice(2);
const definition = loader.loadSync("pserver/v1/pserver.proto", { includeDirs: [folder] });
const { ParameterServer } = grpc.loadPackageDefinition(definition).pserver.v1;
const server = new ParameterServer(address, grpc.credentials.createInsecure());

const call = (method, request) =>
  promisify(server[method].bind(server))(request, { deadline: Date.now() + 10000 });
const pack = (values) => {
  const content = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => content.writeFloatLE(value, 4 * i));
  return content;
};

async function main() {
  try {
    // An empty configuration is SGD with learning rate 1.
    await call("InitParam", { name: "w", elementType: "FLOAT32", content: pack([1, 2, 3]) });
    await call("FinishInitParams", {});
  } catch (error) {
    if (error.code !== grpc.status.ALREADY_EXISTS) throw error; // another worker was first
  }
  const gradient = { name: "w", elementType: "FLOAT32", content: pack([0.5, 0.5, 0.5]) };
  const pushed = await call("SendGrad", gradient);
  const pulled = await call("GetParam", { name: "w" });
  console.log("version", pushed.version.toString());
  console.log("w =", ...[0, 1, 2].map((i) => pulled.content.readFloatLE(4 * i)));
  server.close();
}

main();
