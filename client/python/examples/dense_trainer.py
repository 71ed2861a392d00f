# SPDX-License-Identifier: Apache-2.0
"""One trainer of several: dense_trainer.py SERVERS DATA MEMBER OF EPOCHS"""

import sys

import pserver

import dense_network as network


def main(servers: str, data: str, member: int, of: int, epochs: int) -> None:
    """Trains its share of the rows, and prints the loss of every step."""
    x, y = network.load(data)
    with pserver.connect(servers, timeout=120.0, wait=60.0) as ps:
        ps.initialize(network.first_values(x.shape[1]), pserver.Adam(lr=1e-3))
        values = ps.pull()
        for rows in network.batches(len(y), epochs, member, of):
            gradients, loss = network.gradients(values, x[rows], y[rows])
            ps.push_pull(gradients, into=values)
            print(loss, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
