//! `txn describe`: what is known of an id, or of a committable, without changing anything.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use super::{given::FileFormat, span};
use crate::{
    cli::{Context, Exit, Usage, context::tell, state::CommittablePlace},
    client::{Client, Examined, TransactionDescription},
    ids::{TopicPartition, TransactionalId},
    net::Clock,
    proto::{
        committable::Committable,
        repair::RepairRefused,
        resume::{Decision, Described},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Transactional id, or file or URL of a prepared transaction
    #[arg(value_name = "ID|FILE|URL")]
    what: String,
    /// Take it for a transactional id, whatever it looks like
    #[arg(long)]
    id: bool,
    #[command(flatten)]
    format: FileFormat,
}

/// What the files of prepared transactions end in.
const EXTENSION: &str = "committable";

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    let path = PathBuf::from(&args.what);
    if args.format.is_flink() {
        if !path.is_file() {
            return Err(Usage(format!("--flink: there is no file {}", args.what)).into());
        }
        let given = args.format.read(&CommittablePlace::File(path)).await?;
        return file(context, timeout, given.committable).await;
    }
    // A file that is not there must not be looked up as an id that nobody knows.
    let named = args.what.contains('/') || path.extension().is_some_and(|e| e == EXTENSION);
    if !args.id && (named || path.is_file()) {
        let place = CommittablePlace::parse(path).map_err(Usage)?;
        return file(context, timeout, place.read().await?).await;
    }
    let client = super::client(context, timeout)?;
    id(context, &client, &TransactionalId::new(args.what)).await
}

async fn id(context: &Context, client: &Client, id: &TransactionalId) -> anyhow::Result<Exit> {
    let admin = client.admin();
    let Some(found) = admin.describe_transaction(id).await? else {
        tell(format!("kafka-2pc: {id}: its coordinator does not know it: never used, or expired"));
        return Ok(Exit::Failed);
    };
    let mut partitions = Vec::new();
    for (place, producers) in admin.describe_producers(&found.partitions).await {
        partitions.push(match producers {
            Err(unknown) => (place, Err(unknown.to_string())),
            Ok(producers) => {
                let ours = producers.iter().find(|p| p.producer_id == found.identity.producer_id);
                (place, Ok(ours.and_then(|p| p.open_since)))
            }
        });
    }
    let age = found.start_ms.map(|start| Clock::wall_ms().saturating_sub(start));
    if context.json() {
        let partition = |(place, open): &(TopicPartition, Result<Option<i64>, String>)| {
            json!({
                "topic": &*place.topic,
                "partition": place.partition,
                "open_since": open.as_ref().ok().copied().flatten(),
                "unknown": open.as_ref().err(),
            })
        };
        let mut object = coordinator_json(&found);
        object["age_ms"] = json!(age);
        object["partitions"] = partitions.iter().map(partition).collect();
        object["transactional_id"] = json!(id.as_str());
        context.print(object.to_string())?;
        return Ok(Exit::Done);
    }
    context.print(format!("{id}\n  state        {}", found.state.name()))?;
    context.print(format!("  identity     {}", found.identity))?;
    context.print(format!("  coordinator  broker {}", found.coordinator))?;
    if let Some(age) = age {
        let limit = i64::try_from(found.timeout.as_millis()).unwrap_or(i64::MAX);
        context.print(format!("  begun        {} ago, timeout {}", span(age), span(limit)))?;
    }
    for (place, open) in partitions {
        let open = match open {
            Err(unknown) => unknown,
            Ok(Some(since)) => format!("open since offset {since}"),
            Ok(None) => "nothing open".to_owned(),
        };
        context.print(format!("  {place}: {open}"))?;
    }
    Ok(Exit::Done)
}

fn coordinator_json(found: &TransactionDescription) -> Value {
    json!({
        "state": found.state.name(),
        "producer_id": found.identity.producer_id.0,
        "epoch": found.identity.epoch.0,
        "coordinator": found.coordinator.0,
        "start_ms": found.start_ms,
        "timeout_ms": u64::try_from(found.timeout.as_millis()).unwrap_or(u64::MAX),
    })
}

async fn file(context: &Context, timeout: Duration, committable: Committable) -> anyhow::Result<Exit> {
    // Without a cluster there is still the file to be shown.
    let examined = match context.bootstrap().is_some() {
        false => None,
        true => Some(super::client(context, timeout)?.examine(&committable).await),
    };
    let mut object = committable.to_json();
    if let Some(examined) = &examined {
        object["cluster"] = json!({
            "coordinator": coordinator(&examined.coordinator),
            "decision": decision(&committable, examined),
            "partitions": examined.partitions.iter().map(log).collect::<Vec<_>>(),
        });
    }
    if context.json() {
        context.print(object.to_string())?;
        return Ok(Exit::Done);
    }
    context.print(serde_json::to_string_pretty(&object)?)?;
    Ok(Exit::Done)
}

fn coordinator(described: &Described) -> Value {
    match described {
        Described::Transaction(view) => json!({
            "state": view.state.name(),
            "producer_id": view.identity.producer_id.0,
            "epoch": view.identity.epoch.0,
            "start_ms": (view.start_ms >= 0).then_some(view.start_ms),
        }),
        Described::NotFound => json!("does not know the id"),
        Described::Relookup | Described::Retry => json!("does not answer"),
        Described::Blind => json!("may not or can't be asked"),
    }
}

fn decision(committable: &Committable, examined: &Examined) -> &'static str {
    match examined.proven(committable) {
        Ok((Decision::Commit, _)) => "commit",
        Ok((Decision::Abort, _)) => "abort",
        Err(RepairRefused::Aborted { .. }) => "abort",
        Err(RepairRefused::Open) => "none: open",
        Err(RepairRefused::StillDeciding) => "being carried out",
        Err(_) => "not proven",
    }
}

fn log((place, verdict): &(TopicPartition, Option<crate::proto::evidence::PartitionVerdict>)) -> Value {
    json!({
        "topic": &*place.topic,
        "partition": place.partition,
        "log": verdict.map_or_else(|| "can't be read now".to_owned(), |v| v.story()),
    })
}
