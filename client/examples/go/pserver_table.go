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
		var numbers, rows bytes.Buffer
		for _, place := range places {
			binary.Write(&numbers, binary.LittleEndian, keys[place])
			binary.Write(&rows, binary.LittleEndian, gradients[place])
		}
		_, err := send(t.job.shards[shard], ps.ParameterServerClient.SendGrad, &ps.SendGradRequest{
			Name: t.name, ElementType: ps.ElementType_FLOAT32, Encoding: ps.Encoding_ENCODING_ROWS,
			RowWidth: uint32(t.width), // a table of another width refuses them
			Content:  append(numbers.Bytes(), rows.Bytes()...)})
		if err != nil {
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
		if len(reply.Content) != len(places)*4*t.width {
			return nil, fmt.Errorf("%s has rows of another width", t.name)
		}
		content := bytes.NewReader(reply.Content)
		for _, place := range places {
			rows[place] = make([]float32, t.width)
			if err := binary.Read(content, binary.LittleEndian, rows[place]); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}
