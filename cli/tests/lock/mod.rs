//! Each row of the first table in `docs/command_line_failures.md` is a test here.

mod coordinator;
mod each_server;
mod kept;
mod on_terminal;
mod signals;
mod usage;
