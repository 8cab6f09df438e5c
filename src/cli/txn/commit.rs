//! `txn commit`: commits what somebody else prepared, and tells what became of it.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    given::{Completeness, FileFormat, Given, Source},
    settled::{Settlement, names, partition, settle},
};
use crate::{
    cli::{Context, Exit},
    client::{Client, Resumed, TransactionDescription},
    ids::{TopicId, TopicPartition},
    proto::{
        committable::Committable,
        resume::{CommitError, CoordinatorState, Decision, First, Leaderless, Outcome, PendingCause},
        settle::{SETTLE_PATIENCE, SettlePartition, SettleTarget},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    format: FileFormat,
    /// Commit also what no complete checkpoint lists; its job, started again, writes those records once more
    #[arg(long)]
    force: bool,
    /// Commit although a partition has no leader, and risk that it hangs (KAFKA-20734)
    #[arg(long)]
    no_wait_for_leader: bool,
}

/// One result, for people and for scripts.
struct Report {
    exit: Exit,
    outcome: &'static str,
    evidence: String,
    partitions: Vec<Value>,
}

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    let client = super::client(context, timeout)?;
    let taken = args.source.take(context, &client, &args.format).await?;
    if taken.given.is_empty() {
        context.say("nothing is prepared here");
    }
    let all = taken.given.iter().map(|given| one(&client, given, timeout, &args));
    let mut exit = Exit::Done;
    for (given, report) in taken.given.iter().zip(join_all(all).await) {
        exit = exit.worst(report.exit);
        print(context, given, &report)?;
    }
    taken.release().await?;
    Ok(exit)
}

async fn one(client: &Client, given: &Given, timeout: Duration, args: &Args) -> Report {
    let committable = &given.committable;
    if given.checkpoint == Completeness::Incomplete && !args.force {
        let evidence = "its checkpoint never became complete, so its records are written again when the job goes on; \
                        --force commits it in spite of that";
        return Report::new(Exit::Failed, "denied", evidence.to_owned());
    }
    let clock = crate::net::Clock::start();
    let known = Known::ask(client, committable).await;
    let committable = &known.committable;
    let leaderless = if args.no_wait_for_leader { Leaderless::Ignore } else { Leaderless::Wait };
    let resume = client.resume(committable.clone()).first(First::Describe).leaderless(leaderless);
    let outcome = match resume.timeout(timeout).commit().await {
        Ok(Resumed { outcome, .. }) => outcome,
        Err(error) => return not_decided(client, given, error).await,
    };
    let already = match &outcome {
        Outcome::Committed => false,
        Outcome::AlreadyCommitted(_) => true,
        Outcome::Lost { partitions, .. } => {
            let lost = |p: &TopicPartition| partitions.iter().any(|l| l.partition == *p);
            let all = committable.partitions.iter().filter(|p| lost(&p.topic_partition()));
            let partitions = all.map(partition).collect();
            return Report { partitions, ..Report::new(Exit::Lost, "lost", outcome.story()) };
        }
        Outcome::Undecidable(_) | Outcome::Aborted => {
            let partitions = committable.partitions.iter().map(partition).collect();
            let report = Report::new(Exit::Undecidable, "undecidable", outcome.story());
            return Report { partitions, ..report };
        }
    };
    let spent = clock.now().since(crate::ids::Moment::default());
    let left = timeout.saturating_sub(spent).clamp(Duration::from_secs(1), SETTLE_PATIENCE);
    let settlement = settle(client, known.target(), left).await;
    let report = decided(given, already, &outcome, &settlement);
    if !known.target().partitions.is_empty() {
        return report;
    }
    let evidence = format!("{}; whether readers see it is not known: no partition is named", report.evidence);
    Report { evidence, ..report }
}

/// A committable, and what its coordinator adds to one that tells nothing but its identity, as Flink's does.
struct Known {
    committable: Committable,
    partitions: Vec<TopicPartition>,
}

impl Known {
    /// Only a transaction that is open under the very identity is the committable's own for certain. Its start time is
    /// evidence, should the answer to the commit be lost, and its partitions are where the commit must arrive.
    async fn ask(client: &Client, committable: &Committable) -> Self {
        let mut known = Self { committable: committable.clone(), partitions: Vec::new() };
        if committable.start_ms.is_some() || !committable.partitions.is_empty() {
            return known;
        }
        let described = client.admin().describe_transaction(&committable.transactional_id).await;
        let own = |d: &TransactionDescription| {
            d.identity == committable.identity && d.state == CoordinatorState::Ongoing
        };
        if let Some(open) = described.ok().flatten().filter(own) {
            known.committable.start_ms = open.start_ms;
            known.partitions = open.partitions;
        }
        known
    }

    fn target(&self) -> SettleTarget {
        let mut target = SettleTarget::of(&self.committable, Decision::Commit);
        target.partitions.extend(self.partitions.iter().map(|partition| SettlePartition {
            partition: partition.clone(),
            topic_id: TopicId::UNKNOWN,
            offset: None,
        }));
        target
    }
}

fn decided(given: &Given, already: bool, outcome: &Outcome, settlement: &Settlement) -> Report {
    let done = if already { "already-committed" } else { "committed" };
    let (exit, name) = match settlement {
        Settlement::Everywhere { gone } if !gone.is_empty() => (Exit::Lost, "lost"),
        Settlement::Everywhere { .. } | Settlement::Denied(_) => (Exit::Done, done),
        Settlement::Hanging(_) | Settlement::Leaderless(_) => (Exit::Failed, "hanging"),
        Settlement::Pending(_) => (Exit::Failed, "pending"),
    };
    let evidence = match settlement.story() {
        Some(story) => format!("{}; {story}", outcome.story()),
        None => outcome.story(),
    };
    let partitions = settlement.partitions(&given.committable);
    Report { partitions, ..Report::new(exit, name, evidence) }
}

async fn not_decided(client: &Client, given: &Given, error: CommitError) -> Report {
    let outcome = match &error {
        CommitError::Pending { .. } => "pending",
        CommitError::AnotherCluster { .. } | CommitError::Denied | CommitError::Unsupported => "denied",
    };
    let mut report = Report::new(Exit::Failed, outcome, error.to_string());
    if matches!(error, CommitError::Pending { cause: PendingCause::Leaderless, .. }) {
        let places: Vec<_> = given.committable.partitions.iter().map(|p| p.topic_partition()).collect();
        let leaderless = client.admin().leaderless(&places).await.unwrap_or_default();
        if !leaderless.is_empty() {
            report.evidence = format!(
                "{}: {} (--no-wait-for-leader commits in spite of that)",
                report.evidence,
                names(&leaderless)
            );
            report.partitions = Settlement::Leaderless(leaderless).partitions(&given.committable);
        }
    }
    report
}

impl Report {
    fn new(exit: Exit, outcome: &'static str, evidence: String) -> Self {
        Self { exit, outcome, evidence, partitions: Vec::new() }
    }
}

fn print(context: &Context, given: &Given, report: &Report) -> anyhow::Result<()> {
    let committable = &given.committable;
    let (id, identity) = (&committable.transactional_id, committable.identity);
    if context.json() {
        let line = json!({
            "file": given.file.display().to_string(),
            "transactional_id": id.as_str(),
            "producer_id": identity.producer_id.0,
            "epoch": identity.epoch.0,
            "outcome": report.outcome,
            "evidence": report.evidence,
            "partitions": report.partitions,
        });
        return Ok(context.print(line.to_string())?);
    }
    let outcome = report.outcome.replace('-', " ");
    Ok(context.print(format!(
        "{}: {outcome} ({id}, {identity}): {}",
        given.file.display(),
        report.evidence
    ))?)
}
