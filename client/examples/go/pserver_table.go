// SPDX-License-Identifier: Apache-2.0
// A table of float32: rows found by a key, as docs/wire.md, "Tables", says. What is left out: ranges
// of keys, and batches that are larger than a message.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	ps "pserver/v1"
)

type table struct {
	job   *job
	name  string
	width int
}

// Defines the table at every shard; where it is already, nothing changes. `config` has its settings.
func (j *job) table(name string, width int, config []byte) (*table, error) {
	for _, s := range j.shards {
		_, err := send(s, ps.ParameterServerClient.DefineParam, &ps.InitParamRequest{
			Name: name, ElementType: ps.ElementType_FLOAT32, Config: config})
		if err != nil {
			return nil, err
		}
	}
	return &table{j, name, width}, nil
}

// Which shard has a key; every client of the job must come to the same.
func (t *table) shardOf(key uint64) uint64 {
	x := (key ^ key>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	shard, _ := bits.Mul64(x^x>>31, uint64(len(t.job.shards)))
	return shard
}

// For each shard the places of its keys.
func (t *table) split(keys []uint64) [][]int {
	places := make([][]int, len(t.job.shards))
	for place, key := range keys {
		shard := t.shardOf(key)
		places[shard] = append(places[shard], place)
	}
	return places
}

// Adds a gradient to each key's row. Each shard gets a push of its own.
func (t *table) add(keys []uint64, gradients [][]float32) error {
	for shard, places := range t.split(keys) {
		numbers, content := t.pack(keys, gradients, places)
		_, err := send(t.job.shards[shard], ps.ParameterServerClient.SendGrad, &ps.SendGradRequest{
			Name: t.name, ElementType: ps.ElementType_FLOAT32, Encoding: ps.Encoding_ENCODING_ROWS,
			RowWidth: uint32(t.width), // a table of another width refuses them
			Content:  append(numbers, content...)})
		if err != nil {
			return err
		}
	}
	return nil
}

// The same, and the rows behind it: a step of training in one round trip to each shard. Each item of
// a batch is answered by itself, so that a failure of one is not the call's.
func (t *table) addGet(keys []uint64, gradients [][]float32) ([][]float32, error) {
	rows := make([][]float32, len(keys))
	for shard, places := range t.split(keys) {
		if len(places) == 0 {
			continue
		}
		numbers, content := t.pack(keys, gradients, places)
		reply, err := send(t.job.shards[shard], ps.ParameterServerClient.PushPull,
			&ps.PushPullRequest{
				Grads: []*ps.SendGradRequest{{
					Name: t.name, ElementType: ps.ElementType_FLOAT32,
					Encoding: ps.Encoding_ENCODING_ROWS, RowWidth: uint32(t.width),
					Content: append(numbers, content...)}},
				Params: []*ps.GetParamRequest{{Name: t.name, Keys: numbers}}})
		if err != nil {
			return nil, err
		}
		for _, status := range []*ps.ItemStatus{reply.Grads[0].Status, reply.Params[0].Status} {
			if status != nil {
				return nil, &failure{status.Word, status.Message}
			}
		}
		if err := t.unpack(reply.Params[0].Reply.Content, places, rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// The keys of these places and their gradients, as both travel.
func (t *table) pack(keys []uint64, gradients [][]float32, places []int) ([]byte, []byte) {
	var numbers, content bytes.Buffer
	for _, place := range places {
		binary.Write(&numbers, binary.LittleEndian, keys[place])
		binary.Write(&content, binary.LittleEndian, gradients[place])
	}
	return numbers.Bytes(), content.Bytes()
}

// Puts the rows of a reply where their keys stand.
func (t *table) unpack(content []byte, places []int, rows [][]float32) error {
	if len(content) != len(places)*4*t.width {
		return fmt.Errorf("%s has rows of another width", t.name)
	}
	reader := bytes.NewReader(content)
	for _, place := range places {
		rows[place] = make([]float32, t.width)
		if err := binary.Read(reader, binary.LittleEndian, rows[place]); err != nil {
			return err
		}
	}
	return nil
}

// The rows of the keys, in their order.
func (t *table) get(keys []uint64) ([][]float32, error) {
	rows := make([][]float32, len(keys))
	for shard, places := range t.split(keys) {
		var numbers bytes.Buffer
		for _, place := range places {
			binary.Write(&numbers, binary.LittleEndian, keys[place])
		}
		reply, err := send(t.job.shards[shard], ps.ParameterServerClient.GetParam,
			&ps.GetParamRequest{Name: t.name, Keys: numbers.Bytes()})
		if err != nil {
			return nil, err
		}
		if err := t.unpack(reply.Content, places, rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
