//! `kafka-2pc txn`: looks at transactions, and ends those that somebody has to end by hand.

mod abort;
mod commit;
mod describe;
mod given;
mod leftovers;
mod list;
mod repair;
mod settled;

use std::time::Duration;

use super::{Context, Exit, duration::parse_duration};
use crate::client::Client;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Give up after this time
    #[arg(long, global = true, help_heading = super::COMMON, default_value = "60s", value_parser = parse_duration, value_name = "TIME")]
    timeout: Duration,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List all transactions of the cluster
    List(list::Args),
    /// Show everything about a transactional id, or about a prepared transaction in a file
    Describe(describe::Args),
    /// Commit prepared transactions, which another process may have left
    Commit(commit::Args),
    /// Abort the open transaction of a transactional id
    Abort(abort::Args),
    /// List what is open under the ids of a job, and abort it if wanted
    Leftovers(leftovers::Args),
    /// Write the missing markers of transactions that hang (KAFKA-20734)
    Repair(repair::Args),
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let timeout = args.timeout;
    match args.command {
        Command::List(args) => list::run(context, timeout, args).await,
        Command::Describe(args) => describe::run(context, timeout, args).await,
        Command::Commit(args) => commit::run(context, timeout, args).await,
        Command::Abort(args) => abort::run(context, timeout, args).await,
        Command::Leftovers(args) => leftovers::run(context, timeout, args).await,
        Command::Repair(args) => repair::run(context, timeout, args).await,
    }
}

/// A client whose calls are all over by `timeout`, about.
fn client(context: &Context, timeout: Duration) -> anyhow::Result<Client> {
    let config = context.client_config()?;
    let request_timeout = config.request_timeout.min(timeout.max(Duration::from_secs(1)));
    Ok(Client::new(config.max_block(timeout).request_timeout(request_timeout)))
}

/// A time span for people.
fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{}s", ms.max(0) % 1000 / 100),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_read_well() {
        let texts: Vec<_> = [-5, 1_234, 61_000, 3_720_000].into_iter().map(span).collect();
        assert_eq!(texts, ["0.0s", "1.2s", "1m01s", "1h02m"]);
    }
}
