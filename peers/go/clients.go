package main

import (
	"context"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type etcd struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func openEtcd() (etcd, error) {
	config := clientv3.Config{Endpoints: []string{setting("ETCD_URL", "")}, DialTimeout: 20 * time.Second, Logger: zap.NewNop()}
	client, err := clientv3.New(config)
	if err != nil {
		return etcd{}, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	return etcd{client, session}, err
}

func (etcd etcd) Close() {
	etcd.session.Close()
	etcd.client.Close()
}

type mutexes struct{ etcd }

func openMutex() (Client, error) {
	opened, err := openEtcd()
	return mutexes{opened}, err
}

func (mutexes mutexes) Lock(key string) (func() error, error) {
	mutex := concurrency.NewMutex(mutexes.session, "/"+key)
	release := func() error { return mutex.Unlock(context.Background()) }
	return release, mutex.Lock(context.Background())
}

type elections struct{ etcd }

func openElection() (Client, error) {
	opened, err := openEtcd()
	return elections{opened}, err
}

func (elections elections) Lock(key string) (func() error, error) {
	election := concurrency.NewElection(elections.session, "/"+key)
	resign := func() error { return election.Resign(context.Background()) }
	return resign, election.Campaign(context.Background(), "candidate")
}

// redsyncs poll: they try again after a random time of 50 to 250 ms.
type redsyncs struct {
	client *goredislib.Client
	sync   *redsync.Redsync
}

func openRedsync() (Client, error) {
	addr := strings.TrimPrefix(setting("REDIS_URL", ""), "redis://")
	client := goredislib.NewClient(&goredislib.Options{Addr: addr, PoolSize: 64, ReadTimeout: 30 * time.Second})
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return redsyncs{client, redsync.New(goredis.NewPool(client))}, nil
}

func (redsyncs redsyncs) Lock(key string) (func() error, error) {
	// With many contenders, the default of 32 tries would give up.
	mutex := redsyncs.sync.NewMutex(key, redsync.WithTries(1_000_000), redsync.WithExpiry(30*time.Second))
	release := func() error {
		_, err := mutex.Unlock()
		return err
	}
	return release, mutex.Lock()
}

func (redsyncs redsyncs) Close() { redsyncs.client.Close() }
