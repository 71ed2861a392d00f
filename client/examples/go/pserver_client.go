// A client that is safe to copy: every change is applied once, however often it is sent. The rules
// are in docs/wire.md ("Retrying safely") and docs/placement.md. What it leaves out: parameters
// above 16 MiB on several servers, ranges and batches (../python/trainer.py has them), and calls by
// several goroutines at a time.
package main

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ps "pserver/v1"
)

const (
	splitBytes   = 16 << 20         // larger parameters are cut over all servers
	messageBytes = 64 << 20         // of a reply; gRPC's own limit is 4 MiB
	attemptTime  = 10 * time.Second // then the same is sent again: the server may hang
	patience     = 60 * time.Second // of all attempts together: longer than a server may be away
	pauseMin     = 20 * time.Millisecond
	pauseMax     = 2 * time.Second
)

// After these words of a server (`ps-status`) the same request is sent again. True: the word leaves
// open whether the request was applied.
var againWords = map[string]bool{"busy": false, "not_owner": false, "no_memory": true,
	"unavailable": true, "timeout": true, "cancelled": true}

// The same for failures without a word, which gRPC made on the way. All of them leave it open.
var againCodes = map[codes.Code]bool{codes.Unavailable: true, codes.DeadlineExceeded: true,
	codes.Canceled: true, codes.Internal: true, codes.Unknown: true}

// A failure that repeating does not mend, with the server's word for it.
type failure struct {
	word, text string
}

func (f *failure) Error() string { return f.text }

func says(err error, word string) bool {
	f, ok := err.(*failure)
	return ok && f.word == word
}

// A shard of the job, and the three fields by which its server knows a repeat.
type shard struct {
	stub     ps.ParameterServerClient
	clientID []byte // random, of this process for this shard
	session  uint64 // begins with a time in microseconds: a later one is newer
	sequence uint64 // of the latest request
}

// Puts the next id into a request that changes something; a pull has none.
func (s *shard) number(request interface{}) {
	id := &ps.RequestId{ClientId: s.clientID, Session: s.session, Sequence: s.sequence + 1}
	switch request := request.(type) {
	case *ps.InitParamRequest:
		request.Request = id
	case *ps.FinishInitParamsRequest:
		request.Request = id
	case *ps.SendGradRequest:
		request.Request = id
	default:
		return
	}
	s.sequence++
}

// A method of the stub, by whichever stub the shard has at the moment.
type method[Request, Reply any] func(ps.ParameterServerClient, context.Context, *Request,
	...grpc.CallOption) (*Reply, error)

// Sends a request under a new id until it is answered: every repeat has the id and the bytes of the
// first attempt.
func send[Request, Reply any](s *shard, call method[Request, Reply],
	request *Request) (*Reply, error) {
	s.number(request)
	isOpen := false // an earlier attempt may have been applied
	giveUp := time.Now().Add(patience)
	for attempt := 0; ; attempt++ {
		var trailer metadata.MD
		ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
		reply, err := call(s.stub, ctx, request, grpc.Trailer(&trailer))
		cancel()
		if err == nil {
			return reply, nil
		}
		word := first(trailer, "ps-status")
		leavesOpen, isAgain := againWords[word]
		if word == "" {
			leavesOpen, isAgain = true, againCodes[status.Code(err)]
		}
		// Forgotten by the server: a new number is right only if the old one was not applied.
		if word == "stale_session" && !isOpen {
			s.session, _ = strconv.ParseUint(first(trailer, "ps-session"), 10, 64)
			s.sequence, isAgain = 0, s.session > 0
			s.number(request)
		}
		isOpen = isOpen || leavesOpen
		wait := waitTime(attempt, first(trailer, "grpc-retry-pushback-ms"))
		if !isAgain || time.Now().Add(wait).After(giveUp) {
			return nil, &failure{word, status.Convert(err).Message()}
		}
		time.Sleep(wait)
	}
}

func first(trailer metadata.MD, key string) string {
	return append(trailer.Get(key), "")[0]
}

// Half of a pause is by chance, so that not all clients of a server come back at once. The pause
// that a server asks for is kept whole.
func waitTime(attempt int, asked string) time.Duration {
	pause := pauseMax
	if attempt < 7 {
		pause = pauseMin << attempt
	}
	wait := pause/2 + time.Duration(chance.Int63n(int64(pause/2)))
	ms, _ := strconv.Atoi(asked)
	if least := time.Duration(ms) * time.Millisecond; wait < least {
		return least
	}
	return wait
}

var chance = rand.New(rand.NewSource(time.Now().UnixNano()))

// A job: its shards in their order.
type job []*shard

func openJob(seeds []string) (job, error) {
	var all job
	for _, address := range discover(seeds) {
		conn, err := grpc.Dial(address, append(dialOptions(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes)))...)
		if err != nil {
			return nil, err
		}
		id := make([]byte, 16)
		if _, err := cryptorand.Read(id); err != nil {
			return nil, err
		}
		all = append(all, &shard{ps.NewParameterServerClient(conn), id,
			uint64(time.Now().UnixMicro()), 0})
	}
	return all, nil
}

// The address of each shard's server. Here the list says it; the one place to ask anything else.
func discover(seeds []string) []string {
	return seeds
}

// Where a parameter lives; every client of the job must come to the same.
func (j job) shardOf(name string) *shard {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return j[hash.Sum32()%uint32(len(j))]
}

// Gives every shard its parameters, and ends the initialisation of those without any. A shard that
// another trainer has initialised stays as it is.
func (j job) initialise(parameters ...*ps.InitParamRequest) error {
	for _, shard := range j {
		err := j.initialiseShard(shard, parameters)
		for says(err, "stale_epoch") { // the server was lost with what it had been given
			err = j.initialiseShard(shard, parameters)
		}
		if err != nil && !says(err, "exists") {
			return err
		}
	}
	return nil
}

func (j job) initialiseShard(s *shard, parameters []*ps.InitParamRequest) error {
	finish := &ps.FinishInitParamsRequest{}
	for _, parameter := range parameters {
		if len(j) > 1 && len(parameter.Content) > splitBytes {
			return fmt.Errorf("%s is above 16 MiB: this client does not cut it", parameter.Name)
		}
		if j.shardOf(parameter.Name) != s {
			continue
		}
		given, err := send(s, ps.ParameterServerClient.InitParam, parameter)
		if err != nil {
			return err
		}
		if finish.Epoch == 0 { // of the first: a server that was lost since then has another
			finish.Epoch = given.Epoch
		}
	}
	_, err := send(s, ps.ParameterServerClient.FinishInitParams, finish)
	return err
}

func (j job) push(name string, gradient []float32) (*ps.SendGradResponse, error) {
	s := j.shardOf(name)
	return send(s, ps.ParameterServerClient.SendGrad, &ps.SendGradRequest{
		Name: name, ElementType: ps.ElementType_FLOAT32, Content: pack(gradient)})
}

func (j job) pull(name string, values []float32) error {
	s := j.shardOf(name)
	reply, err := send(s, ps.ParameterServerClient.GetParam, &ps.GetParamRequest{Name: name})
	if err != nil {
		return err
	}
	return binary.Read(bytes.NewReader(reply.Content), binary.LittleEndian, values)
}

// Elements are little-endian, packed.
func pack(values []float32) []byte {
	var buffer bytes.Buffer
	binary.Write(&buffer, binary.LittleEndian, values)
	return buffer.Bytes()
}
