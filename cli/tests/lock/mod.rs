//! The effect of each event on the command, the lock and the exit code: each row of the first table in
//! `docs/command_line_failures.md` is a test here, on a real Redis.

mod coordinator;
mod each_server;
mod kept;
mod on_terminal;
mod signals;
mod usage;
