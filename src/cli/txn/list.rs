//! `txn list`: what all coordinators know.

use std::time::Duration;

use comfy_table::{Table, presets};
use serde_json::json;

use crate::{
    cli::{Context, Exit},
    client::{TransactionFilter, TransactionSummary},
    proto::resume::CoordinatorState,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List ids that begin with P only
    #[arg(long, value_name = "P", default_value = "", hide_default_value = true)]
    prefix: String,
    /// List transactions that are open or being ended only
    #[arg(long)]
    open: bool,
}

const OPEN: [CoordinatorState; 4] = [
    CoordinatorState::Ongoing,
    CoordinatorState::PrepareCommit,
    CoordinatorState::PrepareAbort,
    CoordinatorState::PrepareEpochFence,
];

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    let client = super::client(context, timeout)?;
    let states = if args.open { OPEN.to_vec() } else { Vec::new() };
    let filter = TransactionFilter { prefix: args.prefix, states };
    let listing = client.admin().list_transactions(&filter).await?;
    print(context, &listing.transactions)?;
    for blind in &listing.blind {
        context.warn(format!("there may be more transactions: {blind}"));
    }
    Ok(if listing.blind.is_empty() { Exit::Done } else { Exit::Failed })
}

fn print(context: &Context, transactions: &[TransactionSummary]) -> anyhow::Result<()> {
    if context.json() {
        for t in transactions {
            let line = json!({
                "transactional_id": t.transactional_id.as_str(),
                "producer_id": t.producer_id.0,
                "state": t.state.name(),
                "coordinator": t.coordinator.0,
            });
            context.print(line.to_string())?;
        }
        return Ok(());
    }
    if transactions.is_empty() {
        context.say("no transactions");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["TRANSACTIONAL ID", "STATE", "PRODUCER ID", "COORDINATOR"]);
    for t in transactions {
        table.add_row([
            t.transactional_id.to_string(),
            t.state.name().to_owned(),
            t.producer_id.to_string(),
            t.coordinator.to_string(),
        ]);
    }
    Ok(context.print(table.trim_fmt())?)
}
