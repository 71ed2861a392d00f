// SPDX-License-Identifier: Apache-2.0
// A job: parameters that are spread over its shards as docs/placement.md says. What is left out:
// parameters above 16 MiB on several servers, ranges and batches (../python/trainer.py has them).
package main

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	ps "pserver/v1"
)

const splitBytes = 16 << 20 // larger parameters are cut over all servers

// A job: its shards in their order.
type job []*shard

func openJob(seeds []string) (job, error) {
	var all job
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
		all = append(all, s)
	}
	return all, err
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
