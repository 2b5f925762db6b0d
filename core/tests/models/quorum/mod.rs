//! [`order`]: clients never wait for each other for ever. [`validity`]: no two clients believe at one instant
//! that they hold.

mod order;
mod rules;
mod validity;

const MEMBERS: usize = 3;
