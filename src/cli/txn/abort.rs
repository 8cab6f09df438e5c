//! `txn abort`: aborts what is open under a transactional id, and nothing else.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use super::{
    settled::{names, settle},
    span,
};
use crate::{
    checkpoint::ObjectLocation,
    cli::{
        Context, Exit, Usage,
        state::{Look, StatePlace},
    },
    client::{Admin, Client, TransactionDescription},
    ids::{ProducerId, TopicId, TopicPartition, TransactionalId},
    net::Clock,
    proto::{
        committable::Committable,
        naming::IdPrefix,
        resume::{CoordinatorState, Decision},
        settle::{DecidedBy, SETTLE_PATIENCE, SettlePartition, SettleTarget},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Transactional id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    spared: Spared,
}

/// What is not aborted.
#[derive(Debug, clap::Args)]
pub(super) struct Spared {
    /// The job's state, a directory or a URL, whose prepared transactions are spared; may be repeated
    #[arg(long, value_name = "DIR|URL", value_parser = StatePlace::parser())]
    pub(super) state: Vec<StatePlace>,
    /// Abort also what is prepared, or may be
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(context: &Context, timeout: Duration, args: Args) -> anyhow::Result<Exit> {
    // An id that nobody knows has nothing open: a file's name must not be taken for one.
    let path = Path::new(&args.id);
    if path.is_file()
        || path.extension().is_some_and(|e| e == "committable")
        || ObjectLocation::is_meant(&args.id)
    {
        let why = format!("{} is a file: `kafka-2pc txn describe` tells the transactional id in it", args.id);
        return Err(Usage(why).into());
    }
    let client = super::client(context, timeout)?;
    end(context, &client, &TransactionalId::new(args.id.as_str()), (&args.spared, timeout)).await
}

/// Aborts what is open under this id, unless something speaks against it; and says what was done.
pub(super) async fn end(
    context: &Context,
    client: &Client,
    id: &TransactionalId,
    (spared, timeout): (&Spared, Duration),
) -> anyhow::Result<Exit> {
    let admin = client.admin();
    let Some(found) = admin.describe_transaction(id).await? else {
        return tell(context, id, None, ("nothing-open", "its coordinator does not know it", Exit::Done));
    };
    let refused = |why: &str| tell(context, id, Some(&found), ("refused", why, Exit::Failed));
    match found.state {
        CoordinatorState::Ongoing => {}
        CoordinatorState::Empty | CoordinatorState::CompleteCommit | CoordinatorState::CompleteAbort => {
            return nothing_open(context, &admin, (id, &found)).await;
        }
        CoordinatorState::PrepareCommit
        | CoordinatorState::PrepareAbort
        | CoordinatorState::PrepareEpochFence
        | CoordinatorState::Dead
        | CoordinatorState::Unknown => {
            return refused("it is decided already, and its coordinator is carrying that out");
        }
    }
    if !spared.force {
        let mut owned = false;
        for place in &spared.state {
            let state = place.look().await?;
            owned |= owns(&state, id, client.cluster_id().await?.as_deref()).await?;
            if let Some(file) = prepared_in(place, &state, id).await? {
                return refused(&format!(
                    "it is prepared, to be committed: {} (--force aborts it in spite of that, and its records are lost)",
                    file.display()
                ));
            }
        }
        // A state that knows nothing of the id can't tell that it is not prepared.
        if !owned {
            let why = match spared.state.is_empty() {
                true => "name the state of its job with --state DIR|URL, or use --force",
                false => {
                    "no state that was given belongs to its job; name that one with --state DIR|URL, or use --force"
                }
            };
            return refused(&format!("it may be prepared, to be committed later: {why}"));
        }
    }
    abort(context, client, (id, &found), timeout).await
}

async fn abort(
    context: &Context,
    client: &Client,
    (id, found): (&TransactionalId, &TransactionDescription),
    timeout: Duration,
) -> anyhow::Result<Exit> {
    let age = found.start_ms.map_or_else(|| "?".to_owned(), |s| span(Clock::wall_ms().saturating_sub(s)));
    context.say(format!(
        "aborting {id}: {}, open for {age}, partitions {}",
        found.identity,
        names(&found.partitions)
    ));
    let level = client.transaction_level().await?;
    client.admin().abort_transaction(id, found.timeout).await?;
    let partition = |p: &TopicPartition| SettlePartition {
        partition: p.clone(),
        topic_id: TopicId::UNKNOWN,
        offset: None,
    };
    let target = SettleTarget {
        transactional_id: id.clone(),
        identity: found.identity,
        decision: Decision::Abort,
        by: Some(DecidedBy::fence(level)),
        partitions: found.partitions.iter().map(partition).collect(),
    };
    match settle(client, target, timeout.min(SETTLE_PATIENCE)).await.story() {
        None => tell(context, id, Some(found), ("aborted", "its records are not visible", Exit::Done)),
        Some(story) => tell(context, id, Some(found), ("hanging", &story, Exit::Failed)),
    }
}

/// Nothing is to be aborted; but does an earlier end hang?
async fn nothing_open(
    context: &Context,
    admin: &Admin,
    (id, found): (&TransactionalId, &TransactionDescription),
) -> anyhow::Result<Exit> {
    let (open, unseen) = open_of(admin, found.identity.producer_id).await?;
    if !open.is_empty() {
        let why = format!(
            "its coordinator says {}, but its producer id holds {} open: an earlier end hangs there. An abort would \
             decide those records, whatever was decided before; see `kafka-2pc txn repair`",
            found.state.name(),
            names(&open)
        );
        return tell(context, id, Some(found), ("refused", &why, Exit::Failed));
    }
    if !unseen.is_empty() {
        context.warn(format!("these partitions could not be looked at: {}", names(&unseen)));
    }
    tell(context, id, Some(found), ("nothing-open", "nothing is open under it", Exit::Done))
}

/// The partitions that a producer id holds open, and those that could not be looked at.
async fn open_of(
    admin: &Admin,
    producer_id: ProducerId,
) -> anyhow::Result<(Vec<TopicPartition>, Vec<TopicPartition>)> {
    let all = admin.all_partitions().await?;
    let (mut open, mut unseen) = (Vec::new(), Vec::new());
    for (place, producers) in admin.describe_producers(&all).await {
        match producers {
            Err(_) => unseen.push(place),
            Ok(list) => {
                if list.iter().any(|p| p.producer_id == producer_id && p.open_since.is_some()) {
                    open.push(place);
                }
            }
        }
    }
    Ok((open, unseen))
}

/// True when the job whose state this is makes ids like this one, on this cluster.
async fn owns(state: &Look, id: &TransactionalId, cluster_id: Option<&str>) -> anyhow::Result<bool> {
    let Some(checkpoint) = state.newest().await? else { return Ok(false) };
    if cluster_id.is_some_and(|here| !checkpoint.cluster_id.is_empty() && *checkpoint.cluster_id != *here) {
        return Ok(false);
    }
    let mut writers = checkpoint.writers.iter();
    // Before its first complete checkpoint a job has no writer's state; its usual prefix is known all the same.
    let usual = IdPrefix::new(&format!("{}-{}", checkpoint.topic, checkpoint.job_id));
    let first = checkpoint.writers.is_empty() && usual.is_ok_and(|p| p.parse(id.as_str()).is_some());
    Ok(first || writers.any(|writer| writer.owns(id)))
}

/// The file or object of a committable in a job's state that names the id; the state itself if that is gone.
pub(super) async fn prepared_in(
    place: &StatePlace,
    state: &Look,
    id: &TransactionalId,
) -> anyhow::Result<Option<PathBuf>> {
    let kept = state.committables().await?.into_iter();
    let named =
        |(path, committable): (PathBuf, Committable)| (committable.transactional_id == *id).then_some(path);
    if let Some(path) = kept.filter_map(named).next() {
        return Ok(Some(path));
    }
    let newest = state.newest().await?;
    let mut listed = newest.iter().flat_map(|checkpoint| &checkpoint.committables);
    Ok(listed.any(|l| l.committable.transactional_id == *id).then(|| PathBuf::from(place.to_string())))
}

fn tell(
    context: &Context,
    id: &TransactionalId,
    found: Option<&TransactionDescription>,
    (outcome, why, exit): (&str, &str, Exit),
) -> anyhow::Result<Exit> {
    if context.json() {
        let partition = |p: &TopicPartition| json!({ "topic": &*p.topic, "partition": p.partition });
        let line = json!({
            "transactional_id": id.as_str(),
            "producer_id": found.map(|f| f.identity.producer_id.0),
            "epoch": found.map(|f| f.identity.epoch.0),
            "age_ms": found.and_then(|f| f.start_ms).map(|s| Clock::wall_ms().saturating_sub(s)),
            "partitions": found.iter().flat_map(|f| &f.partitions).map(partition).collect::<Vec<_>>(),
            "outcome": outcome,
            "evidence": why,
        });
        context.print(line.to_string())?;
    } else {
        context.print(format!("{id}: {}: {why}", outcome.replace('-', " ")))?;
    }
    Ok(exit)
}
