//! The two topics: both there, not the same, and every partition of the one in the other.

use std::{str::FromStr, sync::Arc};

use super::Args;
use crate::{
    cli::{Usage, context::Context},
    client::{Client, Topic, TopicError},
};

/// With how many partitions a missing topic is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partitions {
    Number(i32),
    /// As many as the source has.
    AsSource,
}

impl FromStr for Partitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "source" => Ok(Self::AsSource),
            _ => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.map(Self::Number).ok_or_else(|| "it is a number above 0, or `source`".to_owned())
            }
        }
    }
}

/// What there is.
#[derive(Debug)]
pub(super) struct Topics {
    pub(super) to: Topic,
    /// The id of the cluster that is copied from; empty where the brokers do not tell.
    pub(super) from_cluster: Arc<str>,
    /// Whether they lie in two clusters, as far as brokers tell.
    pub(super) are_apart: bool,
}

impl Topics {
    /// Looks both up, and creates the target if that is wanted.
    ///
    /// # Errors
    /// One is missing, both are the same, or the target has too few partitions.
    pub(super) async fn resolve(
        context: &Context,
        args: &Args,
        (from, to): (&Client, &Client),
    ) -> anyhow::Result<Self> {
        let source = from.topic(&args.from).await?;
        let (from_cluster, to_cluster) = (from.cluster_id().await?, to.cluster_id().await?);
        if args.from == args.to && from_cluster == to_cluster {
            return Err(Usage(format!("--from and --to are the same topic, {}", args.to)).into());
        }
        let are_apart = from_cluster != to_cluster;
        let least = source.partitions();
        let target = match to.topic(&args.to).await {
            Err(TopicError::Missing(_)) => create(args, least, to).await?,
            found => {
                let found = found?;
                if let Some(Partitions::Number(n)) = args.partitions {
                    if n != found.partitions() {
                        let has = found.partitions();
                        context.warn(format!("topic {} has {has} partitions already", args.to));
                    }
                }
                found
            }
        };
        if target.partitions() < least {
            let has = target.partitions();
            anyhow::bail!(
                "topic {} has {has} partitions, fewer than {} of {}: a record is copied into the partition of its \
                 number. Add partitions to it (kafka-topics.sh --alter --topic {} --partitions {least}), or name \
                 another topic",
                args.to,
                least,
                args.from,
                args.to
            );
        }
        let from_cluster = from_cluster.unwrap_or_else(|| Arc::from(""));
        Ok(Self { to: target, from_cluster, are_apart })
    }
}

async fn create(args: &Args, least: i32, to: &Client) -> anyhow::Result<Topic> {
    let partitions = match args.partitions {
        Some(Partitions::AsSource) => least,
        Some(Partitions::Number(n)) if n >= least => n,
        Some(Partitions::Number(n)) => {
            let why = format!(
                "--partitions {n}: {} has {least}, and a record is copied into the partition of its number",
                args.from
            );
            return Err(Usage(why).into());
        }
        None => anyhow::bail!(
            "topic {} does not exist; create it, or let --partitions N create it, or --partitions source with as many \
             as {} has ({least})",
            args.to,
            args.from
        ),
    };
    to.create_topic(&args.to, partitions, None).await?;
    Ok(to.topic(&args.to).await?)
}

#[cfg(test)]
mod tests {
    use super::Partitions::{self, AsSource, Number};

    #[test]
    fn partitions_are_a_number_or_those_of_the_source() {
        assert_eq!(("3".parse(), "source".parse()), (Ok(Number(3)), Ok(AsSource)));
        for wrong in ["0", "-1", "", "all"] {
            assert!(wrong.parse::<Partitions>().is_err(), "{wrong}");
        }
    }
}
