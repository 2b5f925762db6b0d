mod chaos;
mod connect;
mod failover;
