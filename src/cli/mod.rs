//! The command-line program `kafka-2pc`: one file per command.
//!
//! Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 an error, or not done yet, or denied,
//! 2 usage, 3 data is lost, 4 it can't be known whether data is lost.

mod broker;
mod cat;
mod checkpoints;
mod completions;
mod context;
mod crash;
mod demo;
mod duration;
mod exit;
mod format;
mod job;
mod latency;
mod mirror;
mod object;
mod parent;
mod pipe;
mod policy;
mod settings;
mod state;
mod timeline;
mod txn;

use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};

use context::Context;
use exit::{Exit, Usage};

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 an error, or not done yet, or denied; 2 wrong arguments; 3 records are lost or doubled; 4 nothing \
proves whether records are lost";

/// Records go into Kafka exactly once, whatever crashes.
#[derive(Debug, Parser)]
#[command(name = "kafka-2pc", version, max_term_width = 110, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Where the help lists the options of every command: behind a command's own.
const COMMON: &str = "Common options";

/// Options of every command.
#[derive(Debug, Clone, Args)]
struct Globals {
    /// Brokers of the cluster to begin with [env: KAFKA_BOOTSTRAP]
    #[arg(long, global = true, help_heading = COMMON, value_name = "HOST:PORT,..")]
    bootstrap: Option<String>,
    /// Print results as JSON, one object a line
    #[arg(long, global = true, help_heading = COMMON)]
    json: bool,
    /// Print more messages; -vv prints even more
    #[arg(short, long, global = true, help_heading = COMMON, action = ArgAction::Count)]
    verbose: u8,
    /// Print warnings and errors only, and no progress
    #[arg(short, long, global = true, help_heading = COMMON, conflicts_with = "verbose")]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write lines into a topic, exactly once
    Pipe(pipe::Args),
    /// Copy a topic into another one, exactly once
    Mirror(mirror::Args),
    /// Read a topic
    Cat(cat::Args),
    /// Look at transactions, and end them by hand
    Txn(txn::Args),
    /// Look at the checkpoints of a job
    Checkpoints(checkpoints::Args),
    /// Show where the time of a job's checkpoints went
    Timeline(timeline::Args),
    /// Run a small Kafka in memory, to try things out
    Broker(broker::Args),
    /// Watch records go in exactly once in spite of kill -9; takes less than half a minute and needs no cluster
    Demo,
    /// Print the script that completes these commands in a shell
    Completions(completions::Args),
}

/// Runs the program with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context::new(&cli.globals);
    parent::end_with_it();
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
        Command::Mirror(args) => mirror::run(context, args).await,
        Command::Cat(args) => cat::run(context, args).await,
        Command::Txn(args) => txn::run(context, args).await,
        Command::Checkpoints(args) => checkpoints::run(context, args).await,
        Command::Timeline(args) => timeline::run(context, &args).await,
        Command::Broker(args) => broker::run(context, args).await,
        Command::Demo => demo::run(context).await,
        Command::Completions(args) => completions::run::<Cli>(&args),
    }
}

#[cfg(test)]
mod documented_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_contradict_themselves_nowhere() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
