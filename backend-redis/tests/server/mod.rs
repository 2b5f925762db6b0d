//! A separate server for each test, with clients and operators.

mod bad_limits;
mod closing;
mod counts;
mod downgrade;
mod foreign_keys;
mod foreign_numbers;
mod forged_messages;
mod forgotten;
mod full_memory;
mod idle_cells;
mod leased_cells;
mod limits;
mod listing;
mod many_renewals;
mod node_data;
mod observed;
mod operator;
mod rechecks;
mod reconnect;
mod repair;
mod requests;
