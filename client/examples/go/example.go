// SPDX-License-Identifier: Apache-2.0
// Initialises two parameters, pushes to them and pulls them, and counts in a table:
// ./run_go.sh HOST:PORT[,...]
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/golang/protobuf/proto"

	ps "pserver/v1"
)

func main() {
	job, err := openJob(strings.Split(os.Args[1], ","))
	check(err)

	// Plain gradient descent; Adam is `Optimizer: ps.OptimizerConfig_Adam.Enum()` and needs no more.
	config, err := proto.Marshal(&ps.OptimizerConfig{
		Optimizer: ps.OptimizerConfig_SGD.Enum(),
		ConstLr:   &ps.ConstLrConfig{LearningRate: proto.Float64(0.5)},
	})
	check(err)
	check(job.initialise(
		&ps.InitParamRequest{Name: "w", ElementType: ps.ElementType_FLOAT32,
			Content: pack([]float32{1, 2, 3}), Config: config},
		&ps.InitParamRequest{Name: "b", ElementType: ps.ElementType_FLOAT32,
			Content: pack([]float32{4}), Config: config}))

	pushed, err := job.push("w", []float32{1, 1, 1})
	check(err)
	_, err = job.push("b", []float32{2})
	check(err)
	w, b := make([]float32, 3), make([]float32, 1)
	check(job.pull("w", w))
	check(job.pull("b", b))
	fmt.Println("version", pushed.Version)
	fmt.Println("w =", w[0], w[1], w[2])
	fmt.Println("b =", b[0])

	rule, err := proto.Marshal(&ps.OptimizerConfig{Optimizer: ps.OptimizerConfig_Add.Enum(),
		Table: &ps.TableConfig{Width: proto.Uint32(1)}})
	check(err)
	counts, err := job.table("counts", 1, rule)
	check(err)
	check(counts.add([]uint64{7, 1 << 63}, [][]float32{{1}, {1}}))
	_, err = counts.addGet([]uint64{7}, [][]float32{{1}})
	check(err)
	rows, err := counts.get([]uint64{7, 1 << 63, 5})
	check(err)
	fmt.Println("counts =", rows[0][0], rows[1][0], rows[2][0])
}
