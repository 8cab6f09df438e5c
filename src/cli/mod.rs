//! The command-line program `kafka-2pc`: one file per command.
//!
//! Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 an error, or not done yet, or denied,
//! 2 usage, 3 data is lost, 4 it can't be known whether data is lost.

mod broker;
mod cat;
mod completions;
mod context;
mod crash;
mod duration;
mod exit;
mod format;
mod pipe;
mod settings;
mod txn;

use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};

use context::Context;
use exit::{Exit, Usage};

/// Records go into Kafka exactly once, whatever crashes.
#[derive(Debug, Parser)]
#[command(name = "kafka-2pc", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
struct Globals {
    /// The cluster: HOST:PORT[,HOST:PORT..]
    #[arg(long, global = true, env = "KAFKA_BOOTSTRAP", value_name = "HOST:PORT,..", hide_env_values = true)]
    bootstrap: Option<String>,
    /// Results as JSON, one object per line
    #[arg(long, global = true)]
    json: bool,
    /// More messages; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Errors alone, and no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write lines into a topic, exactly once
    Pipe(pipe::Args),
    /// Read a topic
    Cat(cat::Args),
    /// Look at transactions, and end them
    Txn(txn::Args),
    /// Run a Kafka broker in memory, for trying things out
    Broker(broker::Args),
    /// Print a shell's completion script
    Completions(completions::Args),
}

/// Runs the program with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context::new(&cli.globals);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()).into(),
    };
    let exit = runtime.block_on(run(&context, cli.command));
    // Connections end with their tasks; nothing is waited for.
    runtime.shutdown_background();
    exit.unwrap_or_else(|error| exit::report(&error)).into()
}

async fn run(context: &Context, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Pipe(args) => pipe::run(context, args).await,
        Command::Cat(args) => cat::run(context, args).await,
        Command::Txn(args) => txn::run(context, args).await,
        Command::Broker(args) => broker::run(context, args).await,
        Command::Completions(args) => completions::run::<Cli>(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_contradict_themselves_nowhere() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
