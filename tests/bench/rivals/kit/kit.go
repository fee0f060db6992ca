// Package kit is what the Go rivals share: commands on standard input, and the load.
package kit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const warmUp = 500 * time.Millisecond // WARM_UP_S of bench_load.py

// Append stores one entry for the caller of that number and returns when it is committed.
type Append func(caller int, body []byte) error

// Status is what a member says of itself. End is the index of its last entry.
type Status struct {
	Leads bool   `json:"leads"`
	End   uint64 `json:"end"`
}

type command struct {
	Do      string  `json:"do"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
	Size    int     `json:"size"`
}

// Obey answers each line of standard input by one of standard output, after a first one that says
// that the process is there. It returns with the input's end.
func Obey(status func() Status, store Append) {
	out := json.NewEncoder(os.Stdout)
	must(out.Encode(struct{}{}))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given command
		must(json.Unmarshal(lines.Bytes(), &given))
		switch given.Do {
		case "status":
			must(out.Encode(status()))
		case "append":
			must(out.Encode(store(0, []byte("first")) == nil))
		case "load":
			must(out.Encode(load(store, given)))
		default:
			must(fmt.Errorf("unknown command %q", given.Do))
		}
	}
}

// load keeps given.Count appends outstanding: so many callers, each of which waits for its own.
func load(store Append, given command) map[string]float64 {
	body := make([]byte, given.Size)
	for i := range body {
		body[i] = 'x'
	}
	measured := time.Duration(given.Seconds * float64(time.Second))
	from := time.Now().Add(warmUp)
	until := from.Add(measured)
	took := make([][]time.Duration, given.Count)
	refused := make([]int, given.Count)
	var callers sync.WaitGroup
	for caller := range given.Count {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for began := time.Now(); began.Before(until); began = time.Now() {
				err := store(caller, body)
				ended := time.Now()
				if err != nil {
					refused[caller]++
				} else if !ended.Before(from) && ended.Before(until) {
					took[caller] = append(took[caller], ended.Sub(began))
				}
			}
		}()
	}
	callers.Wait()
	return figures(slices.Concat(took...), refused, given.Seconds)
}

// figures are those of `percentiles_ms` in bench_kit.py; without latencies there are none.
func figures(latencies []time.Duration, refused []int, seconds float64) map[string]float64 {
	found := map[string]float64{"k_per_s": float64(len(latencies)) / seconds / 1e3, "refused": 0}
	for _, count := range refused {
		found["refused"] += float64(count)
	}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		last := len(latencies) - 1
		found["p50_ms"] = latencies[len(latencies)/2].Seconds() * 1e3
		found["p99_ms"] = latencies[min(last, len(latencies)*99/100)].Seconds() * 1e3
	}
	return found
}

func must(err error) {
	if err != nil {
		Fail(err)
	}
}

// Fail ends the process and says why.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
