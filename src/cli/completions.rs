//! `kafka-2pc completions`: the script that makes a shell complete our arguments.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell to print it for
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "kafka-2pc", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
