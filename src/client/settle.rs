//! Has a decision reached every partition?

use std::{sync::Arc, time::Duration};

use super::{look, router::Router};
use crate::{
    ids::TopicPartition,
    net::Clock,
    proto::resume::PartitionMeta,
    proto::settle::{
        ProducersSeen, Settle, SettleEffect, SettleError, SettleInput, SettlePartition, SettleTarget, Settled,
    },
};

/// Waits until the marker of a decision is on every partition, or is known to be missing for good.
pub(crate) async fn settle(
    router: &Arc<Router>,
    target: SettleTarget,
    patience: Duration,
) -> Result<Settled, SettleError> {
    let clock = router.clock;
    let partitions = target.partitions.clone();
    let mut machine = Settle::new(clock.now(), target, patience, Clock::seed());
    if router.markers_are_late() {
        machine = machine.later(clock.now());
    }
    loop {
        let mut input = None;
        while let Some(effect) = machine.poll_effect() {
            input = Some(answer(router, machine.target(), &partitions, effect).await);
        }
        if let Some(result) = machine.result() {
            return result.clone();
        }
        let input = match input {
            Some(input) => input,
            None => {
                clock.sleep_until(machine.next_deadline()).await;
                SettleInput::Tick
            }
        };
        // One effect is under way at a time, so its answer is always asked for.
        _ = machine.handle(clock.now(), input);
    }
}

async fn answer(
    router: &Arc<Router>,
    target: &SettleTarget,
    partitions: &[SettlePartition],
    effect: SettleEffect,
) -> SettleInput {
    match effect {
        SettleEffect::CheckTopics(places) => {
            let chosen = places.iter().filter_map(|at| partitions.get(*at));
            let chosen: Vec<_> = chosen.map(|p| (p.partition.clone(), p.topic_id)).collect();
            let metas = look::partitions_since(router, &chosen, router.clock.now()).await;
            // Without an answer nothing is known, and the machine looks again later.
            SettleInput::Topics(metas.unwrap_or_else(|| vec![PartitionMeta::NotKnown; places.len()]))
        }
        SettleEffect::DescribeProducers(places) => {
            let chosen = places.iter().filter_map(|at| partitions.get(*at));
            let chosen: Vec<TopicPartition> = chosen.map(|p| p.partition.clone()).collect();
            let answers = look::producers(router, &chosen).await;
            let producer_id = target.identity.producer_id;
            let seen: Vec<_> = answers.iter().map(|a| look::seen(a.as_ref(), producer_id)).collect();
            if seen.iter().any(|seen| matches!(seen, ProducersSeen::Open(_))) {
                router.saw_late_marker();
            }
            SettleInput::Producers(seen)
        }
        SettleEffect::DescribeTransaction => {
            SettleInput::Described(look::described(router, &target.transactional_id).await)
        }
    }
}
