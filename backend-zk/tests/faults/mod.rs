mod curator_soak;
mod default_clocks;
