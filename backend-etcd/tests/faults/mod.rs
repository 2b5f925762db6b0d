mod chaos;
mod default_clocks;
