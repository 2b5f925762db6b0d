// Package main measures etcd's concurrency package and redsync: peers NAME… Each measure prints a line of JSON.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	peers := []*Peer{
		{"go-etcd-concurrency", versionOf("go.etcd.io/etcd/client/v3"), "etcd", openMutex},
		{"go-etcd-election", versionOf("go.etcd.io/etcd/client/v3"), "etcd", openElection},
		{"redsync", versionOf("github.com/go-redsync/redsync/v4"), "redis", openRedsync},
	}
	for _, name := range os.Args[1:] {
		at := slices.IndexFunc(peers, func(peer *Peer) bool { return peer.name == name })
		if at < 0 {
			fmt.Fprintf(os.Stderr, "no peer %q\n", name)
			os.Exit(1)
		}
		for measure := range strings.SplitSeq(setting("BENCH_MEASURES", "M1,M2,M3"), ",") {
			peers[at].play(measure)
		}
	}
}

func versionOf(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "?"
}
