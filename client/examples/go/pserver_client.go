// SPDX-License-Identifier: Apache-2.0
// A client that is safe to copy: every change is applied once, however often it is sent. The rules
// are in docs/wire.md, "Retrying safely". A shard belongs to one goroutine at a time.
package main

import (
	"context"
	"math/rand"
	"reflect"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ps "pserver/v1"
)

const (
	attemptTime = 10 * time.Second // then the same is sent again: the server may hang
	patience    = 60 * time.Second // of all attempts together: longer than a server may be away
	pauseMin    = 20 * time.Millisecond
	pauseMax    = 2 * time.Second
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
	conn     *grpc.ClientConn
	address  string
	seeds    []string
	index    int
	clientID []byte // random, of this process for this shard
	session  uint64 // begins with a time in microseconds: a later one is newer
	sequence uint64 // of the latest request
}

// Puts the next id into a request that changes something, which is one that has a field for it; a
// pull has none. In a batch each gradient has a number of its own, counted from the batch's.
func (s *shard) number(request interface{}) {
	message := reflect.ValueOf(request).Elem()
	field := message.FieldByName("Request")
	if !field.IsValid() || field.Type() != reflect.TypeOf((*ps.RequestId)(nil)) {
		return
	}
	field.Set(reflect.ValueOf(
		&ps.RequestId{ClientId: s.clientID, Session: s.session, Sequence: s.sequence + 1}))
	numbers := 1
	if grads := message.FieldByName("Grads"); grads.IsValid() {
		numbers = grads.Len()
	}
	s.sequence += uint64(numbers)
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
		if word == "" && status.Code(err) == codes.Unimplemented {
			word = "unimplemented" // by a server that is older than the method
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
		if word != "busy" {
			_ = s.follow() // or the same server again
		}
	}
}

// The shard's present server, which may be another one than before. The numbers stay: they are the
// shard's.
func (s *shard) follow() error {
	addresses, err := discover(s.seeds)
	if err != nil {
		return err
	}
	return s.connect(addresses)
}

func (s *shard) connect(addresses []string) error {
	if s.index >= len(addresses) || addresses[s.index] == s.address {
		return nil
	}
	conn, err := dial(addresses[s.index])
	if err != nil {
		return err
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.stub, s.conn = ps.NewParameterServerClient(conn), conn
	s.address = addresses[s.index]
	return nil
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
