// SPDX-License-Identifier: Apache-2.0
// Where the servers of a job are: docs/discovery.md.
package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ps "pserver/v1"
)

const messageBytes = 64 << 20 // of a reply; gRPC's own limit is 4 MiB

// The address of each shard's server, as the first seed that answers knows. Several servers without
// etcd do not know each other, and older ones nobody: then the seeds are the shards, in order.
func discover(seeds []string) ([]string, error) {
	err := errors.New("nobody serves one of the shards")
	for _, seed := range seeds {
		cluster, failed := ask(seed)
		if status.Code(failed) == codes.Unimplemented {
			return seeds, nil
		}
		if failed != nil {
			err = failed
			continue
		}
		if cluster.Alone && len(seeds) > 1 {
			return seeds, nil
		}
		var addresses []string
		for _, member := range cluster.Members {
			if member.Address != "" {
				addresses = append(addresses, member.Address)
			}
		}
		if len(addresses) > 0 && len(addresses) == len(cluster.Members) {
			return addresses, nil
		}
	}
	return nil, err
}

func ask(seed string) (*ps.GetClusterResponse, error) {
	conn, err := dial(seed)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	return ps.NewParameterServerClient(conn).GetCluster(ctx, &ps.GetClusterRequest{})
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.Dial(address, append(dialOptions(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes)))...)
}
