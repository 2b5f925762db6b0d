//! Tests of the facade and of the pages for its users.

mod blocking;
mod guide;
mod links;
mod quickstart;
mod surroundings;
