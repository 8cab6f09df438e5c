//! `txn leftovers`: what is open under the ids of one job, and the abort of what nobody will commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use comfy_table::{Table, presets};
use serde_json::json;

use super::{
    abort::{self, Spared},
    settled::names,
    span,
};
use crate::{
    cli::{Context, Exit, Usage},
    client::{Admin, TransactionFilter, TransactionSummary},
    ids::{ProducerId, TopicPartition, TransactionalId},
    net::Clock,
    proto::{naming::IdPrefix, resume::CoordinatorState},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the job's transactional ids begin with: P-NUMBER-NUMBER, and no others
    #[arg(long, value_name = "P")]
    prefix: String,
    /// Abort those that are open and that no state names
    #[arg(long)]
    abort: bool,
    #[command(flatten)]
    spared: Spared,
}

/// One that is not over.
struct Leftover {
    id: TransactionalId,
    state: CoordinatorState,
    age_ms: Option<i64>,
    partitions: Vec<TopicPartition>,
    end: End,
    /// The file that lists it, of a given state.
    named: Option<PathBuf>,
}

/// How far its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody has decided it.
    Open,
    /// Its coordinator carries the decision out.
    Coming,
    /// Its coordinator says that it is over, but these partitions have it open.
    Missing,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Coming => "decided",
            Self::Missing => "hanging",
        }
    }
}

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    let prefix = IdPrefix::new(&args.prefix).map_err(|e| Usage(e.to_string()))?;
    let client = super::client(context, timeout)?;
    let admin = client.admin();
    let filter = TransactionFilter { prefix: format!("{}-", args.prefix), states: Vec::new() };
    let listing = admin.list_transactions(&filter).await?;
    let of_job = |t: &TransactionSummary| prefix.parse(t.transactional_id.as_str()).is_some();
    let listed: Vec<_> = listing.transactions.into_iter().filter(of_job).collect();
    let (found, unseen) = leftovers(&admin, &listed, &args.spared).await?;
    let mut exit = if listing.blind.is_empty() { Exit::Done } else { Exit::Failed };
    if args.abort {
        for leftover in &found {
            exit = exit.worst(abort::end(context, &client, &leftover.id, (&args.spared, timeout)).await?);
        }
    } else {
        print(context, &found, &args)?;
    }
    if found.is_empty() && !context.json() {
        context.say(format!("nothing is open under {}-NUMBER-NUMBER", args.prefix));
    }
    for blind in &listing.blind {
        context.warn(format!("there may be more transactions: {blind}"));
    }
    if !unseen.is_empty() {
        context.warn(format!("these partitions could not be looked at: {}", names(&unseen)));
    }
    Ok(exit)
}

/// Those that are not over, and partitions where that could not be seen.
async fn leftovers(
    admin: &Admin,
    listed: &[TransactionSummary],
    spared: &Spared,
) -> anyhow::Result<(Vec<Leftover>, Vec<TopicPartition>)> {
    let over = listed.iter().filter(|t| end_of(t.state) == End::Missing).map(|t| t.producer_id).collect();
    let (hanging, unseen) = held_open(admin, over).await?;
    let mut states = Vec::new();
    for place in &spared.state {
        states.push((place, place.look().await?));
    }
    let mut found = Vec::new();
    for one in listed {
        let held = hanging.get(&one.producer_id);
        if end_of(one.state) == End::Missing && held.is_none() {
            continue;
        }
        // It may have come to its end meanwhile.
        let Some(now) = admin.describe_transaction(&one.transactional_id).await? else { continue };
        let end = end_of(now.state);
        if end == End::Missing && held.is_none() {
            continue;
        }
        let mut named = None;
        for (place, state) in &states {
            if named.is_none() {
                named = abort::prepared_in(place, state, &one.transactional_id).await?;
            }
        }
        found.push(Leftover {
            id: one.transactional_id.clone(),
            state: now.state,
            age_ms: now.start_ms.map(|start| Clock::wall_ms().saturating_sub(start)),
            partitions: held.filter(|_| end == End::Missing).cloned().unwrap_or(now.partitions),
            end,
            named,
        });
    }
    Ok((found, unseen))
}

/// Whether the state of a coordinator means that something is open.
fn end_of(state: CoordinatorState) -> End {
    match state {
        CoordinatorState::Ongoing => End::Open,
        CoordinatorState::Empty | CoordinatorState::CompleteCommit | CoordinatorState::CompleteAbort => {
            End::Missing
        }
        CoordinatorState::PrepareCommit
        | CoordinatorState::PrepareAbort
        | CoordinatorState::PrepareEpochFence
        | CoordinatorState::Dead
        | CoordinatorState::Unknown => End::Coming,
    }
}

/// Where these producer ids hold something open, and which partitions could not be looked at.
async fn held_open(
    admin: &Admin,
    of: BTreeSet<ProducerId>,
) -> anyhow::Result<(BTreeMap<ProducerId, Vec<TopicPartition>>, Vec<TopicPartition>)> {
    let (mut held, mut unseen) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
    if of.is_empty() {
        return Ok((held, unseen));
    }
    let all = admin.all_partitions().await?;
    for (place, producers) in admin.describe_producers(&all).await {
        let Ok(producers) = producers else {
            unseen.push(place);
            continue;
        };
        let open = producers.iter().filter(|p| p.open_since.is_some() && of.contains(&p.producer_id));
        open.for_each(|p| held.entry(p.producer_id).or_default().push(place.clone()));
    }
    Ok((held, unseen))
}

fn print(context: &Context, found: &[Leftover], args: &Args) -> anyhow::Result<()> {
    if context.json() {
        for leftover in found {
            let partition = |p: &TopicPartition| json!({ "topic": &*p.topic, "partition": p.partition });
            let line = json!({
                "transactional_id": leftover.id.as_str(),
                "state": leftover.state.name(),
                "end": leftover.end.name(),
                "age_ms": leftover.age_ms,
                "partitions": leftover.partitions.iter().map(partition).collect::<Vec<_>>(),
                "named_by": leftover.named.as_ref().map(|path| path.display().to_string()),
            });
            context.print(line.to_string())?;
        }
        return Ok(());
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["TRANSACTIONAL ID", "STATE", "END", "AGE", "NAMED BY A STATE", "PARTITIONS"]);
    for leftover in found {
        let named = match (&leftover.named, args.spared.state.is_empty()) {
            (Some(path), _) => path.display().to_string(),
            (None, false) => "no".to_owned(),
            (None, true) => "?".to_owned(),
        };
        table.add_row([
            leftover.id.to_string(),
            leftover.state.name().to_owned(),
            leftover.end.name().to_owned(),
            leftover.age_ms.map_or_else(|| "?".to_owned(), span),
            named,
            names(&leftover.partitions),
        ]);
    }
    Ok(context.print(table.trim_fmt())?)
}
