// SPDX-License-Identifier: Apache-2.0
// A job: parameters that are spread over its shards as docs/placement.md says. What is left out:
// parameters above 16 MiB on several servers, ranges and batches (../python/trainer.py has them).
package main

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	ps "pserver/v1"
)

const (
	splitBytes = 16 << 20 // larger parameters are cut over all servers
	rightMs    = 60000    // longer than giving the values takes; after a death the next one waits so long
	turnMs     = 5000     // that a server waits for this trainer's turn before it answers
)

// A job: its shards in their order, and the number by which parameters have theirs.
type job struct {
	shards    []*shard
	placement uint64
}

func openJob(seeds []string) (*job, error) {
	all := &job{}
	giveUp := time.Now().Add(patience)
	addresses, err := discover(seeds)
	for attempt := 0; err != nil && time.Now().Before(giveUp); attempt++ {
		time.Sleep(waitTime(attempt, ""))
		addresses, err = discover(seeds)
	}
	for index := range addresses {
		s := &shard{seeds: seeds, index: index, clientID: make([]byte, 16),
			session: uint64(time.Now().UnixMicro())}
		if _, err := cryptorand.Read(s.clientID); err != nil {
			return nil, err
		}
		if err := s.connect(addresses); err != nil {
			return nil, err
		}
		all.shards = append(all.shards, s)
	}
	return all, err
}

// Where a parameter lives; every client of the job must come to the same.
func (j *job) shardOf(name string) *shard {
	count := uint64(len(j.shards))
	if j.placement <= 1 {
		hash := fnv.New32a()
		hash.Write([]byte(name))
		return j.shards[uint64(hash.Sum32())%count]
	}
	hash := fnv.New64a()
	hash.Write([]byte(name))
	z := hash.Sum64() + j.placement*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return j.shards[(z^z>>31)%count]
}

// Gives the job its first values, if this trainer is the one of all that has the right to
// (docs/discovery.md); returns when the job has them, of whomever.
func (j *job) initialise(parameters ...*ps.InitParamRequest) error {
	ask := &ps.BeginInitRequest{Client: chance.Uint64() | 1, TtlMs: rightMs, WaitMs: turnMs,
		Placement: 1} // the classic rule, if nobody has decided on another
	for {
		err := j.takeTurn(ask, parameters)
		switch {
		case says(err, "stale_epoch"): // the right was lost
			ask.Right = 0
		case says(err, "unimplemented"):
			return j.give(parameters)
		case err != errAgain && !says(err, "conflict"): // that is a shard which has begun anew
			return err
		}
	}
}

var errAgain = errors.New("others are before this trainer")

func (j *job) takeTurn(ask *ps.BeginInitRequest, parameters []*ps.InitParamRequest) error {
	begun, err := send(j.shards[0], ps.ParameterServerClient.BeginInit, ask)
	if err != nil {
		return err
	}
	j.placement = begun.Placement
	if begun.Turn == 2 {
		return nil
	}
	ask.Right = begun.Right
	if begun.Turn == 0 {
		return errAgain
	}
	if err := j.give(parameters); err != nil {
		return err
	}
	_, err = send(j.shards[0], ps.ParameterServerClient.EndInit,
		&ps.EndInitRequest{Client: ask.Client, Right: begun.Right, Lost: begun.Lost})
	return err
}

// Gives every shard its parameters, and ends the initialisation of those without any. A shard that
// is initialised already stays as it is. The first shard is the last: servers without etcd take a job
// whose first shard is initialised for initialised.
func (j *job) give(parameters []*ps.InitParamRequest) error {
	for i := len(j.shards) - 1; i >= 0; i-- {
		shard := j.shards[i]
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

func (j *job) initialiseShard(s *shard, parameters []*ps.InitParamRequest) error {
	finish := &ps.FinishInitParamsRequest{Placement: j.placement}
	for _, parameter := range parameters {
		if len(j.shards) > 1 && len(parameter.Content) > splitBytes {
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

func (j *job) push(name string, gradient []float32) (*ps.SendGradResponse, error) {
	s := j.shardOf(name)
	return send(s, ps.ParameterServerClient.SendGrad, &ps.SendGradRequest{
		Name: name, ElementType: ps.ElementType_FLOAT32, Content: pack(gradient)})
}

func (j *job) pull(name string, values []float32) error {
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
