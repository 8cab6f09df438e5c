//! What the ids of a writer go on with when they are used again.

use std::{collections::HashMap, sync::Arc};

use crate::{
    client::{Client, Resumed, TransactionalProducer},
    ids::{Identity, TransactionalId},
    proto::{committable::Committable, pool::Slot, resume::Outcome},
    sink::config::SinkConfig,
};

/// The producers of a writer's slots.
#[derive(Debug)]
pub(super) struct Producers {
    client: Client,
    config: Arc<SinkConfig>,
    /// Producers of ids that were used and may be used again.
    idle: HashMap<Slot, TransactionalProducer>,
    /// Pairs that ids can go on with whose slot is not free yet.
    pairs: HashMap<Slot, Pair>,
}

#[derive(Debug, Clone, Copy)]
enum Pair {
    Returned(Identity),
    Used(Identity),
}

impl Producers {
    pub(super) fn new(client: Client, config: Arc<SinkConfig>) -> Self {
        Self { client, config, idle: HashMap::new(), pairs: HashMap::new() }
    }

    /// The producer of a slot that is free, and of its id.
    pub(super) fn take(&mut self, slot: Slot, id: TransactionalId) -> TransactionalProducer {
        if let Some(producer) = self.idle.remove(&slot) {
            return producer;
        }
        let config = &self.config;
        let builder = self
            .client
            .transactional_producer(id)
            .transaction_timeout(config.transaction_timeout)
            .delivery_timeout(config.delivery_timeout)
            .linger(config.linger)
            .batch_size(config.batch_bytes)
            .max_request_size(config.request_bytes)
            .buffer_memory(config.buffer_bytes)
            .max_in_flight(config.max_in_flight)
            .compression(config.compression)
            .compression_levels(config.compression_levels)
            .partitioner(config.partitioner.clone());
        match self.pairs.remove(&slot) {
            Some(Pair::Returned(identity)) => builder.returned(identity),
            Some(Pair::Used(identity)) => builder.used(identity),
            // Recovery has seen that nothing is open under it.
            None => builder.vacant(),
        }
    }

    /// The slot's transaction never reached a broker: its producer goes on as it is.
    pub(super) fn unused(&mut self, slot: Slot, producer: TransactionalProducer) {
        self.idle.insert(slot, producer);
    }

    /// The slot's transaction is decided, and so is what its id can go on with once the slot is free.
    pub(super) fn decided(&mut self, slot: Slot, committable: &Committable, resumed: &Resumed) {
        let older = committable.end_txn_version.is_some_and(|version| version < 5);
        let pair = match (&resumed.outcome, resumed.next) {
            (_, Some(next)) => Some(Pair::Returned(next)),
            (Outcome::Committed, None) if older => Some(Pair::Used(committable.identity)),
            // Where evidence had to tell, the id may have moved on: it is taken over anew.
            (_, None) => None,
        };
        self.pairs.extend(pair.map(|pair| (slot, pair)));
    }

    /// Forgets the producers of slots that are in use.
    pub(super) fn retain_free(&mut self, free: impl Fn(Slot) -> bool) {
        self.idle.retain(|slot, _| free(*slot));
    }
}
