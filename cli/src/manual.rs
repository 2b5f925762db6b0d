use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Ended;
use crate::failure::{Failure, Outcome};
use crate::terminal::print;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "latchwork", &mut script);
    print(&script)?;
    Ok(Ended::WELL)
}

pub(crate) fn man(folder: Option<&Path>) -> Outcome {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::machine("the man page cannot be generated", error))?;
        print(&page)?;
        return Ok(Ended::WELL);
    };
    fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder)).map_err(|error| {
        Failure::machine(&format!("the man pages cannot be written to {}", folder.display()), error)
    })?;
    Ok(Ended::WELL)
}
