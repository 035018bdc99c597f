# Goroutines, preempted by signals, on stacks of their own.
# optional: go
# seconds: 240
set -eu
export GOCACHE="$PWD/cache" GOFLAGS=-mod=mod
cat > main.go <<'GO'
package main

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	var group sync.WaitGroup
	results := make(chan int, 1000)
	for i := 0; i < 1000; i++ {
		group.Add(1)
		go func(i int) { defer group.Done(); results <- fib(i % 20) }(i)
	}
	group.Wait()
	close(results)
	sum := 0
	for r := range results {
		sum += r
	}
	fmt.Println(sum)
	done := false
	go func() { for !done { } }()
	runtime.Gosched()
	m := map[string]int{}
	for i := 0; i < 100000; i++ {
		m[strings.Repeat("k", i%50)]++
	}
	runtime.GC()
	keys := make([]string, 0)
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	fmt.Println(len(keys), m[keys[3]])
	defer func() { fmt.Println("recovered:", recover()) }()
	var p *struct{ x int }
	fmt.Println(p.x)
}
GO
go run main.go
