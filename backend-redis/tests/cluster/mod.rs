mod cells;
mod failover;
mod keys;
mod map;
mod shards;
mod silent;
mod slots;
mod tls;
