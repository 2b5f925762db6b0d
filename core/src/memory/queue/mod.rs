pub(super) mod join;
mod node;
mod wait;
