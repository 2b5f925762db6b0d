//! Tests of the facade: what its users see, and what the guide says.

mod blocking;
mod guide;
mod quickstart;
mod surroundings;
