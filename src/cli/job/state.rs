//! A job's state and topic: opened, made, named.

use std::{sync::Arc, time::Duration};

use super::Options;
use crate::{
    checkpoint::{Binding, CheckpointStore, MemoryStore, StoreError},
    cli::{Usage, context::Context, settings::JobConfig},
    client::{Client, TopicError},
    net::Clock,
    proto::naming::IdPrefix,
};

/// The topic must be there, or is created if a number of partitions is given.
///
/// # Errors
/// It is not there, or can't be looked up.
pub(in crate::cli) async fn ensure_topic(
    context: &Context,
    client: &Client,
    topic: &str,
    partitions: Option<i32>,
) -> anyhow::Result<()> {
    match (client.topic(topic).await, partitions) {
        (Ok(found), Some(wanted)) if found.partitions() != wanted => {
            context.warn(format!("topic {topic} has {} partitions already", found.partitions()));
            Ok(())
        }
        (Ok(_), _) => Ok(()),
        (Err(TopicError::Missing(_)), Some(partitions)) => {
            client.create_topic(topic, partitions, None).await?;
            Ok(())
        }
        (Err(e @ TopicError::Missing(_)), None) => {
            anyhow::bail!("{e}, or let --partitions N create it")
        }
        (Err(e), _) => Err(e.into()),
    }
}

/// Where the job's checkpoints are kept.
///
/// # Errors
/// The state is in use, belongs to something else, or can't be read.
pub(in crate::cli) async fn store(
    context: &Context,
    client: &Client,
    (options, config): (&Options, &JobConfig),
    topic: &str,
) -> anyhow::Result<Box<dyn CheckpointStore>> {
    let Some(place) = &options.state else {
        context.warn("without --state nothing survives a crash: what is not yet committed then is aborted");
        return Ok(Box::new(MemoryStore::default()));
    };
    let binding = Binding {
        cluster_id: client.cluster_id().await?,
        topic: Some(Arc::from(topic)),
        ..Binding::default()
    };
    Ok(place.own(context, options.opening(binding, config)).await?.for_a_job())
}

/// How long a state is tried to be given up. It is a courtesy: the lease ends by itself.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The job is over: the next owner of its state need not wait.
pub(in crate::cli) async fn close(context: &Context, store: &mut dyn CheckpointStore) {
    let waits = "the next owner of this state waits for the lease to end";
    match tokio::time::timeout(GIVE_UP, store.close()).await {
        // Who took it over does not wait for this.
        Ok(Ok(()) | Err(StoreError::Fenced { .. })) => {}
        Ok(Err(error)) => context.warn(format!("{error}; {waits}")),
        Err(_) => context.warn(format!("the store does not answer; {waits}")),
    }
}

/// The job's id, which its state keeps; a new one for a new state.
///
/// # Errors
/// The state can't be read.
pub(in crate::cli) async fn job_id(store: &mut dyn CheckpointStore) -> anyhow::Result<Arc<str>> {
    Ok(match store.load().await? {
        Some(checkpoint) => checkpoint.job_id,
        None => Arc::from(format!("{:08x}", Clock::seed() & 0xffff_ffff).as_str()),
    })
}

/// What the job's transactional ids begin with.
///
/// # Errors
/// [`Usage`] for a prefix that can't be.
pub(in crate::cli) fn prefix(config: &JobConfig, topic: &str, job_id: &str) -> Result<IdPrefix, Usage> {
    let prefix = match &config.prefix {
        Some(prefix) => prefix.clone(),
        None => format!("{topic}-{job_id}"),
    };
    IdPrefix::new(&prefix).map_err(|e| Usage(e.to_string()))
}
