package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Room is the shared state of the contenders of one key. All are in one process, so there is one clock.
type Room struct {
	recorded, over atomic.Bool
	inside         atomic.Int64

	mutex               sync.Mutex
	overlaps, regrants  int64
	lastHolder          int
	releasedAt          time.Time
	grants              []int64
	handOffTimes, waits []time.Duration
}

func newRoom(contenders int) *Room {
	return &Room{lastHolder: -1, grants: make([]int64, contenders)}
}

func (room *Room) enter(contender int, asked time.Time) {
	now := time.Now()
	overlap := room.inside.Add(1) != 1
	room.mutex.Lock()
	defer room.mutex.Unlock()
	if overlap {
		room.overlaps++
	}
	last := room.lastHolder
	room.lastHolder = contender
	if !room.recorded.Load() || room.over.Load() {
		return
	}
	room.grants[contender]++
	room.waits = append(room.waits, now.Sub(asked))
	if last == contender {
		room.regrants++
	} else if last >= 0 {
		room.handOffTimes = append(room.handOffTimes, now.Sub(room.releasedAt))
	}
}

func (room *Room) leave() {
	room.inside.Add(-1)
	room.mutex.Lock()
	defer room.mutex.Unlock()
	room.releasedAt = time.Now()
}

func (room *Room) report(peer *Peer, measure string, took time.Duration, err error) {
	room.mutex.Lock()
	defer room.mutex.Unlock()
	param := fmt.Sprintf("W=%d", len(room.grants))
	least, most := slices.Min(room.grants), slices.Max(room.grants)
	n, starved := int64(0), 0
	for _, grants := range room.grants {
		n += grants
		if grants == 0 {
			starved++
		}
	}
	granted := Figures{"value": float64(n) / took.Seconds(), "n": n, "self_regrants": room.regrants, "overlaps": room.overlaps}
	peer.print(measure+"_grants", param, "grants/s", withError(granted, err))
	peer.print(measure+"_handoff", param, "us", timed(room.handOffTimes))
	peer.print(measure+"_wait", param, "us", timed(room.waits))
	var ratio any
	if least > 0 {
		ratio = float64(most) / float64(least)
	}
	fair := Figures{"value": ratio, "min": least, "max": most, "starved": starved, "n": n}
	peer.print(measure+"_fair", param, "max/min grants", fair)
}
