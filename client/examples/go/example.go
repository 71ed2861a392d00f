// Initialises, pushes and pulls one parameter with plain grpc-go: ./run_go.sh HOST:PORT
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ps "pserver/v1"
)

func pack(values ...float32) []byte {
	var buffer bytes.Buffer
	binary.Write(&buffer, binary.LittleEndian, values)
	return buffer.Bytes()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := grpc.DialContext(ctx, os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	check(err)
	server := ps.NewParameterServerClient(conn)

	// An empty configuration is SGD with learning rate 1.
	_, err = server.InitParam(ctx, &ps.InitParamRequest{
		Name: "w", ElementType: ps.ElementType_FLOAT32, Content: pack(1, 2, 3)})
	if err == nil {
		_, err = server.FinishInitParams(ctx, &ps.FinishInitParamsRequest{})
	}
	if status.Code(err) != codes.AlreadyExists { // another worker was first
		check(err)
	}

	pushed, err := server.SendGrad(ctx, &ps.SendGradRequest{
		Name: "w", ElementType: ps.ElementType_FLOAT32, Content: pack(0.5, 0.5, 0.5)})
	check(err)
	pulled, err := server.GetParam(ctx, &ps.GetParamRequest{Name: "w"})
	check(err)
	values := make([]float32, 3)
	check(binary.Read(bytes.NewReader(pulled.Content), binary.LittleEndian, values))
	fmt.Println("version", pushed.Version)
	fmt.Println("w =", values[0], values[1], values[2])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
