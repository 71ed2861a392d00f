// SPDX-License-Identifier: Apache-2.0
// Initialises two parameters, pushes to them and pulls them, and counts in a table:
// ./run_node.sh HOST:PORT[,...]
const { Job } = require("./pserver_client.js");
const { Table } = require("./pserver_table.js");

async function main(seeds, protoFolder) {
  const job = await Job.open(seeds.split(","), protoFolder);
  // Plain gradient descent; Adam is { optimizer: "Adam" } and needs no more.
  const optimizer = { optimizer: "SGD", constLr: { learningRate: 0.5 } };
  await job.initialise({ w: [1, 2, 3], b: [4] }, optimizer);
  const pushed = await job.push("w", [1, 1, 1]);
  await job.push("b", [2]);
  const [w, b] = [await job.pull("w"), await job.pull("b")];
  console.log("version", pushed.version.toString());
  console.log("w =", ...w);
  console.log("b =", ...b);

  const counts = await Table.define(job, "counts", 1, { optimizer: "Add" });
  await counts.add([7n, 1n << 63n, 7n], [[1], [1], [1]]);
  const rows = await counts.get([7n, 1n << 63n, 5n]);
  console.log("counts =", ...rows.flat());
  job.close();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
