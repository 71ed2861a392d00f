// SPDX-License-Identifier: Apache-2.0
// Pulls "w", pushes to it or has a checkpoint saved, once, and prints the code and the message of
// what came of it: try HOST:PORT pull|push|save
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	ps "pserver/v1"
)

func main() {
	conn, err := grpc.Dial(os.Args[1], dialOptions()...)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	server, admin := ps.NewParameterServerClient(conn), ps.NewAdminClient(conn)
	switch os.Args[2] {
	case "pull":
		_, err = server.GetParam(ctx, &ps.GetParamRequest{Name: "w"})
	case "push":
		_, err = server.SendGrad(ctx, &ps.SendGradRequest{Name: "w",
			ElementType: ps.ElementType_FLOAT32, Content: make([]byte, 12)})
	case "save":
		_, err = admin.SaveCheckpoint(ctx, &ps.SaveCheckpointRequest{})
	}
	fmt.Println(status.Code(err), status.Convert(err).Message())
}
