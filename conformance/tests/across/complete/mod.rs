mod backends;
mod cases;
mod clock;
mod futures;
mod options;
pub(crate) mod places;
mod recipes;
