//! `txn repair`: writes the markers that a coordinator lost, if what was decided is proven.

use std::{path::PathBuf, time::Duration};

use serde_json::json;

use super::{
    given::{FileFormat, Given, Source},
    settled::{Settlement, names, settle},
};
use crate::{
    cli::{Context, Exit},
    client::{Client, RepairError},
    proto::{
        repair::RepairRefused,
        resume::Decision,
        settle::{CommittedButHanging, SettleTarget},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
}

/// What to repair.
enum Item {
    Committable(Box<Given>),
    /// The state keeps it with its proof.
    Retired(Box<CommittedButHanging>),
}

struct Report {
    exit: Exit,
    outcome: &'static str,
    evidence: String,
}

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    let client = super::client(context, timeout)?;
    let taken = args.source.take(context, &client, &FileFormat::default()).await?;
    let known = |given: &Given| {
        let committable = &given.committable;
        taken.retired.iter().any(|r| r.identity == committable.identity)
    };
    let unknown = taken.given.iter().filter(|given| !known(given));
    let committables = unknown.map(|given| Item::Committable(Box::new(given.clone())));
    let retired = taken.retired.iter().map(|hanging| Item::Retired(Box::new(hanging.clone())));
    let items: Vec<_> = committables.chain(retired).collect();
    if items.is_empty() {
        context.say("nothing is decided and unsettled here");
    }
    let mut exit = Exit::Done;
    // One after the other: two markers of one producer id on a partition are to be told apart.
    for item in &items {
        let report = match item {
            Item::Committable(given) => committable(&client, given, timeout).await,
            Item::Retired(hanging) => repair(&client, hanging, Settlement::Hanging(hanging.clone())).await,
        };
        exit = exit.worst(report.exit);
        print(context, item, &report)?;
    }
    taken.release().await?;
    Ok(exit)
}

async fn committable(client: &Client, given: &Given, timeout: Duration) -> Report {
    let committable = &given.committable;
    let examined = client.examine(committable).await;
    let (decision, by) = match examined.proven(committable) {
        Ok(proven) => proven,
        Err(refused @ RepairRefused::StillDeciding) => return Report::failed("pending", refused.to_string()),
        Err(refused @ RepairRefused::Aborted { .. }) => return Report::lost(refused.to_string()),
        Err(refused) => return Report::failed("refused", refused.to_string()),
    };
    let target = SettleTarget { by: Some(by), ..SettleTarget::of(committable, decision) };
    match settle(client, target, timeout).await {
        settlement @ (Settlement::Everywhere { .. } | Settlement::Leaderless(_) | Settlement::Pending(_)) => {
            judged(decision, &settlement)
        }
        Settlement::Denied(partitions) => {
            let evidence = format!("READ and DESCRIBE are needed on {}", names(&partitions));
            Report::failed("denied", evidence)
        }
        Settlement::Hanging(hanging) => {
            let settlement = Settlement::Hanging(hanging.clone());
            repair(client, &hanging, settlement).await
        }
    }
}

fn judged(decision: Decision, settlement: &Settlement) -> Report {
    let decided = match decision {
        Decision::Commit => "committed",
        Decision::Abort => "aborted",
    };
    match settlement.story() {
        None if decision == Decision::Abort => {
            Report::lost("it was aborted, and no marker is missing: its records are lost".to_owned())
        }
        None => Report::done("settled", format!("{decided}, and nothing is missing")),
        Some(story) => match settlement {
            Settlement::Everywhere { .. } => Report::done("settled", format!("{decided}; {story}")),
            Settlement::Hanging(_)
            | Settlement::Leaderless(_)
            | Settlement::Pending(_)
            | Settlement::Denied(_) => Report::failed("pending", format!("{decided}; {story}")),
        },
    }
}

async fn repair(client: &Client, hanging: &CommittedButHanging, found: Settlement) -> Report {
    let places: Vec<_> = hanging.partitions.iter().map(|p| p.partition.clone()).collect();
    let marker = match hanging.decision {
        Decision::Commit => "COMMIT",
        Decision::Abort => "ABORT",
    };
    match client.repair(hanging).await {
        Ok(()) => Report::done("repaired", format!("{marker} is on {}", names(&places))),
        Err(error @ (RepairError::NoLeader { .. } | RepairError::Call(_) | RepairError::NotSettled(_))) => {
            Report::failed("pending", error.to_string())
        }
        Err(error @ RepairError::Refused(_)) => Report::failed("refused", error.to_string()),
        Err(error @ RepairError::Marker { .. }) => {
            let story = found.story().unwrap_or_default();
            Report::failed("denied", format!("{error} (ALTER on the cluster is needed); {story}"))
        }
    }
}

impl Report {
    fn done(outcome: &'static str, evidence: String) -> Self {
        Self { exit: Exit::Done, outcome, evidence }
    }

    /// What was to be committed is aborted: `txn commit` says the same.
    fn lost(evidence: String) -> Self {
        Self { exit: Exit::Lost, outcome: "lost", evidence }
    }

    fn failed(outcome: &'static str, evidence: String) -> Self {
        Self { exit: Exit::Failed, outcome, evidence }
    }
}

fn print(context: &Context, item: &Item, report: &Report) -> anyhow::Result<()> {
    let (file, id, identity, places): (Option<&PathBuf>, _, _, Vec<_>) = match item {
        Item::Committable(given) => {
            let c = &given.committable;
            let places = c.partitions.iter().map(|p| p.topic_partition()).collect();
            (Some(&given.file), &c.transactional_id, c.identity, places)
        }
        Item::Retired(hanging) => {
            let places = hanging.partitions.iter().map(|p| p.partition.clone()).collect();
            (None, &hanging.transactional_id, hanging.identity, places)
        }
    };
    if context.json() {
        let partition =
            |p: &crate::ids::TopicPartition| json!({ "topic": &*p.topic, "partition": p.partition });
        let line = json!({
            "file": file.map(|f| f.display().to_string()),
            "transactional_id": id.as_str(),
            "producer_id": identity.producer_id.0,
            "epoch": identity.epoch.0,
            "outcome": report.outcome,
            "evidence": report.evidence,
            "partitions": places.iter().map(partition).collect::<Vec<_>>(),
        });
        return Ok(context.print(line.to_string())?);
    }
    let name = file.map_or_else(|| id.to_string(), |f| f.display().to_string());
    Ok(context.print(format!("{name}: {} ({id}, {identity}): {}", report.outcome, report.evidence))?)
}
