// Pulls "w" once and prints the code and the message of what came of it: try HOST:PORT
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
	_, err = ps.NewParameterServerClient(conn).GetParam(ctx, &ps.GetParamRequest{Name: "w"})
	fmt.Println(status.Code(err), status.Convert(err).Message())
}
