// Initialises, pushes and pulls one parameter with plain grpc-go: ./run_go.sh HOST:PORT
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
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

// With these three fields the server knows a repeat: it is applied once, however often it is sent.
var (
	clientID = make([]byte, 16)               // random: one per process and server
	session  = uint64(time.Now().UnixMicro()) // begins with a time: a later one is newer
	sequence = uint64(0)                      // one counter per server, 1 for the first request
	again    = map[codes.Code]bool{codes.Unavailable: true, codes.DeadlineExceeded: true,
		codes.ResourceExhausted: true, codes.Canceled: true}
)

func nextRequest() *ps.RequestId {
	sequence++
	return &ps.RequestId{ClientId: clientID, Session: session, Sequence: sequence}
}

// Sends it until it is answered; `call` sends the same message, with its id, each time: docs/wire.md,
// "Retrying safely".
func exactlyOnce(call func(ctx context.Context) error) error {
	giveUp, pause := time.Now().Add(30*time.Second), 20*time.Millisecond
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := call(ctx)
		cancel()
		if !again[status.Code(err)] || time.Now().Add(pause).After(giveUp) {
			return err
		}
		time.Sleep(pause)
		if pause *= 2; pause > 2*time.Second {
			pause = 2 * time.Second
		}
	}
}

func main() {
	_, err := rand.Read(clientID)
	check(err)
	conn, err := grpc.Dial(os.Args[1], dialOptions()...)
	check(err)
	server := ps.NewParameterServerClient(conn)

	// An empty configuration is SGD with learning rate 1.
	init := &ps.InitParamRequest{Request: nextRequest(),
		Name: "w", ElementType: ps.ElementType_FLOAT32, Content: pack(1, 2, 3)}
	err = exactlyOnce(func(ctx context.Context) error {
		_, err := server.InitParam(ctx, init)
		return err
	})
	if err == nil {
		finish := &ps.FinishInitParamsRequest{Request: nextRequest()}
		err = exactlyOnce(func(ctx context.Context) error {
			_, err := server.FinishInitParams(ctx, finish)
			return err
		})
	}
	if status.Code(err) != codes.AlreadyExists { // another worker was first
		check(err)
	}

	push := &ps.SendGradRequest{Request: nextRequest(),
		Name: "w", ElementType: ps.ElementType_FLOAT32, Content: pack(0.5, 0.5, 0.5)}
	var pushed *ps.SendGradResponse
	check(exactlyOnce(func(ctx context.Context) (err error) {
		pushed, err = server.SendGrad(ctx, push)
		return
	}))
	var pulled *ps.GetParamResponse
	check(exactlyOnce(func(ctx context.Context) (err error) {
		pulled, err = server.GetParam(ctx, &ps.GetParamRequest{Name: "w"})
		return
	}))
	values := make([]float32, 3)
	check(binary.Read(bytes.NewReader(pulled.Content), binary.LittleEndian, values))
	fmt.Println("version", pushed.Version)
	fmt.Println("w =", values[0], values[1], values[2])
}
