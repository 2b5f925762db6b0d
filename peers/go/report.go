package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Figures are the fields of a line, without the fields that name the line.
type Figures map[string]any

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// seconds returns a variable that is a number of seconds.
func seconds(name, otherwise string) time.Duration {
	value, err := strconv.ParseFloat(setting(name, otherwise), 64)
	if err != nil {
		panic(fmt.Sprintf("%s is no number of seconds", name))
	}
	return time.Duration(value * float64(time.Second))
}

func (peer *Peer) print(measure, param, unit string, figures Figures) {
	figures["peer"], figures["version"], figures["lang"], figures["server"] = peer.name, peer.version, "go", peer.server
	figures["measure"], figures["param"], figures["unit"] = measure, param, unit
	line, err := json.Marshal(figures)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// timed returns p50, p99, the longest time in microseconds, and the number of times.
func timed(times []time.Duration) Figures {
	n := len(times)
	if n == 0 {
		return Figures{"p50": nil, "p99": nil, "max": nil, "n": 0}
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(int(float64(n)*share), n-1)].Nanoseconds()) / 1e3
	}
	return Figures{"p50": at(0.5), "p99": at(0.99), "max": at(1), "n": n}
}

func withError(figures Figures, err error) Figures {
	if err != nil {
		figures["error"] = err.Error()
	}
	return figures
}
