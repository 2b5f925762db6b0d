package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The tasks of M2.
	tasks = 64
	// The candidates of one election.
	candidates = 16
	patience   = 20 * time.Second
)

// Peer is a recipe of a library.
type Peer struct {
	name, version, server string
	open                  func() (Client, error)
}

// Client has its own connection and session.
type Client interface {
	// Lock acquires, and returns the function that releases.
	Lock(key string) (release func() error, err error)
	Close()
}

// play plays one measure, and prints an error as a line too. The programs in other languages have the same logic.
func (peer *Peer) play(measure string) {
	var err error
	switch measure {
	case "M1":
		err = peer.uncontended()
	case "M2":
		err = peer.throughput()
	case "M3":
		for contenders := range strings.SplitSeq(setting("BENCH_W", "2,16,128"), ",") {
			var count int
			if count, err = strconv.Atoi(contenders); err == nil {
				err = peer.handOffs(measure, count)
			}
			if err != nil {
				break
			}
		}
	case "ELECTION":
		err = peer.handOffs(measure, candidates)
	default:
		err = fmt.Errorf("no measure %s", measure)
	}
	if err != nil {
		peer.print(measure, "", "", Figures{"error": err.Error()})
	}
}

func measured() time.Duration { return seconds("BENCH_SECS", "2") }
func warm() time.Duration     { return seconds("BENCH_WARM", "0.5") }

// freshKey returns a key that no other run has.
func freshKey(measure string) string {
	return fmt.Sprintf("%s-%x", strings.ToLower(measure), time.Now().UnixNano())
}

func pair(client Client, key string) error {
	release, err := client.Lock(key)
	if err != nil {
		return err
	}
	return release()
}

func (peer *Peer) uncontended() error {
	client, err := peer.open()
	if err != nil {
		return err
	}
	defer client.Close()
	key := freshKey("m1")
	var times []time.Duration
	recorded := time.Now().Add(warm())
	for end := recorded.Add(measured()); ; {
		began := time.Now()
		if began.After(end) {
			break
		}
		if err := pair(client, key); err != nil {
			return err
		}
		if began.After(recorded) {
			times = append(times, time.Since(began))
		}
	}
	peer.print("M1", "1 task", "us", timed(times))
	return nil
}

func (peer *Peer) throughput() error {
	client, err := peer.open()
	if err != nil {
		return err
	}
	defer client.Close()
	var done atomic.Int64
	var over atomic.Bool
	var workers Workers
	key := freshKey("m2")
	for task := range tasks {
		workers.start(func() error {
			for !over.Load() {
				if err := pair(client, fmt.Sprintf("%s-%d", key, task)); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	time.Sleep(warm())
	before, started := done.Load(), time.Now()
	time.Sleep(measured())
	n, took := done.Load()-before, time.Since(started)
	over.Store(true)
	figures := Figures{"value": float64(n) / took.Seconds(), "n": n}
	peer.print("M2", fmt.Sprintf("%d tasks", tasks), "pairs/s", withError(figures, workers.join()))
	return nil
}

func (peer *Peer) handOffs(measure string, contenders int) error {
	clients := make([]Client, 0, contenders)
	for range contenders {
		client, err := peer.open()
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	room := newRoom(contenders)
	var workers Workers
	key := freshKey(measure)
	for contender, client := range clients {
		workers.start(func() error {
			for !room.over.Load() {
				asked := time.Now()
				release, err := client.Lock(key)
				if err != nil {
					return err
				}
				room.enter(contender, asked)
				room.leave()
				if err := release(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	time.Sleep(warm())
	room.recorded.Store(true)
	started := time.Now()
	time.Sleep(measured())
	room.over.Store(true)
	took := time.Since(started)
	room.report(peer, measure, took, workers.join())
	return nil
}

// Workers are goroutines, with the first error of one of them.
type Workers struct {
	group sync.WaitGroup
	once  sync.Once
	err   error
}

func (workers *Workers) start(work func() error) {
	workers.group.Go(func() {
		if err := work(); err != nil {
			workers.once.Do(func() { workers.err = err })
		}
	})
}

func (workers *Workers) join() error {
	done := make(chan struct{})
	go func() {
		workers.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return workers.err
	case <-time.After(patience):
		return errors.New("one has not come through 20 s after the end")
	}
}
