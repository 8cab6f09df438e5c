//! A partition without a leader while its transaction is decided. Kafka 4.3 and 4.4 lose its marker then (KAFKA-20734).

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_2pc::client::Topic;
use kafka_2pc::ids::TopicPartition;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::naming::IdPrefix;
use kafka_2pc::proto::resume::{CoordinatorState, Decision, Leaderless, Outcome};
use kafka_2pc::proto::settle::{CommittedButHanging, SettleError, SettleTarget};
use kafka_2pc::record::RecordRef;

use super::super::seen::until_state;
use super::job::{Job, Kept, Run, commit, is_committed, only};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// A job whose topic has one partition with one replica, on a node that does not coordinate its first id.
struct Lonely {
    job: Job,
    node: i32,
}

impl Lonely {
    async fn new(bench: &Bench) -> Result<Self, Failure> {
        let mut job = Job::new(bench).await?;
        job.config.leaderless = Leaderless::Ignore;
        job.config.settle_timeout = Duration::from_secs(20);
        // Two of three nodes stay the quorum; the first one is the bootstrap server of a dead cluster's clients.
        let node = 3;
        // The first id is all that is used while the node is away; those that follow have their partitions side by side, on
        // every node.
        loop {
            job.config.prefix = IdPrefix::new(&fresh("k31"))?;
            if bench.coordinator(&job.id(0, 0)).await? != node {
                break;
            }
        }
        job.topic = bench.topic_on(&job.client, node).await?;
        Ok(Self { job, node })
    }

    /// The node of the partition dies, and everybody knows it.
    async fn away(&self, bench: &Bench) -> Shown {
        bench.kill_node(self.node).await?;
        let at = TopicPartition::new(self.job.topic.name().clone(), 0);
        within(async {
            while self.job.client.admin().leaderless(std::slice::from_ref(&at)).await?.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(())
        })
        .await?
    }

    async fn back(&self, bench: &Bench) -> Shown {
        bench.restart_node(self.node).await
    }

    /// What hangs, when the coordinator is done; `None` where brokers wait with their markers, and it arrives.
    async fn hanging(
        &self,
        committable: &Committable,
        decision: Decision,
    ) -> Result<Option<CommittedButHanging>, Failure> {
        let target = SettleTarget::of(committable, decision);
        match within(self.job.client.settle(target, Duration::from_secs(20))).await? {
            Err(SettleError::Hanging(hanging)) => Ok(Some(*hanging)),
            Ok(_) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

async fn write(run: &mut Run, topic: &Topic, value: &str) -> Result<Committable, Failure> {
    within(run.writers[0].write(topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    only(&run.prepare().await?)
}

/// Whether this broker loses markers; where it waits with them, the coordinator is not done while the partition is away.
async fn done_without(
    lonely: &Lonely,
    committable: &Committable,
    state: CoordinatorState,
) -> Result<bool, Failure> {
    let waiting = until_state(&lonely.job.client, &committable.transactional_id, state);
    Ok(tokio::time::timeout(Duration::from_secs(8), waiting).await.is_ok())
}

/// A commit whose marker is lost is not called settled: the partition is named, its id is retired, others go on, nothing of
/// the job ends it the other way, and a repair makes it visible.
pub(super) async fn k31(bench: &Bench) -> Shown {
    let lonely = Lonely::new(bench).await?;
    let topic = lonely.job.topic.clone();
    let mut run = lonely.job.start(1, &Kept::default()).await?;
    let first = write(&mut run, &topic, "first").await?;
    run.durable(std::slice::from_ref(&first));
    lonely.away(bench).await?;
    is_committed(&commit(&run.committer(), &first).await?)?;
    let lost = done_without(&lonely, &first, CoordinatorState::CompleteCommit).await?;
    lonely.back(bench).await?;
    let hanging = lonely.hanging(&first, Decision::Commit).await?;
    let Some(hanging) = hanging else {
        holds(!lost, "the coordinator was done without a marker, and it is called settled")?;
        return equal("visible once there is a leader", bench.committed(&topic).await?, ["first"]);
    };
    let at = TopicPartition::new(topic.name().clone(), 0);
    let named: Vec<_> = hanging.partitions.iter().map(|p| p.partition.clone()).collect();
    equal("where it hangs", named, [at])?;
    run.commit().await?;
    run.writers[0].retire(hanging.clone());
    run.writers[0].durable(&BTreeSet::new());
    let second = write(&mut run, &topic, "second").await?;
    holds(
        second.identity.producer_id != first.identity.producer_id,
        "the producer id of what hangs is used",
    )?;
    is_committed(&commit(&run.committer(), &second).await?)?;
    within(run.committer().settle(&second)).await??;
    equal("visible in front of the missing marker", bench.visible(&topic).await?.len(), 0)?;
    within(lonely.job.client.repair(&hanging)).await??;
    within(run.committer().settle(&first)).await??;
    equal("visible", bench.committed(&topic).await?, ["first", "second"])
}

/// An abort whose marker is lost, by EndTxn or by a fence: a restart finds it, uses another id until it is repaired, and its
/// records never become visible.
pub(super) async fn k36(bench: &Bench) -> Shown {
    for fences in [false, true] {
        let lonely = Lonely::new(bench).await?;
        let topic = lonely.job.topic.clone();
        let mut run = lonely.job.start(1, &Kept::default()).await?;
        let left = write(&mut run, &topic, "no").await?;
        drop(run);
        lonely.away(bench).await?;
        if fences {
            // Granted, or not before there is a leader.
            let init = lonely.job.client.transactional_producer(left.transactional_id.clone()).init();
            _ = tokio::time::timeout(Duration::from_secs(8), init).await;
        } else {
            let end = lonely.job.client.resume(left.clone()).leaderless(Leaderless::Ignore).abort();
            equal("the abort", within(end).await??.outcome, Outcome::Aborted)?;
            done_without(&lonely, &left, CoordinatorState::CompleteAbort).await?;
        }
        lonely.back(bench).await?;
        let mut next = lonely.job.start(1, &Kept::default()).await?;
        let hanging = next.report.hanging.clone();
        let good = write(&mut next, &topic, "yes").await?;
        let same = good.identity.producer_id == left.identity.producer_id;
        holds(hanging.is_empty() || !same, "the producer id of what hangs is used")?;
        is_committed(&commit(&next.committer(), &good).await?)?;
        within(next.committer().settle(&good)).await??;
        for hanging in &hanging {
            equal("what was decided", hanging.decision, Decision::Abort)?;
            equal("visible in front of the missing marker", bench.visible(&topic).await?.len(), 0)?;
            within(lonely.job.client.repair(hanging)).await??;
        }
        equal("visible", bench.committed(&topic).await?, ["yes"])?;
    }
    Ok(())
}
