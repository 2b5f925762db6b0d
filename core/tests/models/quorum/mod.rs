//! [`order`]: clients that wait for members never wait for each other for ever. [`validity`]: no two clients
//! believe at one instant that they hold, also after a server forgot its data.

mod order;
mod rules;
mod validity;

const MEMBERS: usize = 3;
