mod failover;
mod master;
mod tls;
