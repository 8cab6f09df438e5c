//! The task behind an idempotent producer: it carries out what the machine says.

use std::{collections::VecDeque, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::state::{Shared, Taken};
use crate::{
    client::{
        error::ClientError,
        held::Held,
        produce::{self, Answer, Said},
    },
    exchange::{ExchangeError, InitProducerId, facts},
    ids::{Identity, Moment},
    net::{CallError, Clock},
    proto::{
        cause::{Cause, CauseKind},
        idempotent::{Effect, Idempotent, InitFact, Input, ProduceFact},
        outbox::{self, BatchFact, BatchId, FirstBatch, Limits},
    },
    wire::batch::Stamp,
};

pub(super) struct Task {
    shared: Arc<Shared>,
    machine: Idempotent,
    held: Held,
    calls: FuturesUnordered<BoxFuture<'static, Input>>,
    flushes: VecDeque<oneshot::Sender<()>>,
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let config = &shared.config;
        let limits = Limits {
            in_flight: config.in_flight,
            first_batch: FirstBatch::Alone,
            request_bytes: config.batching.request_bytes,
            retry: config.retry_backoff,
            retry_max: config.retry_backoff_max,
        };
        Self {
            machine: Idempotent::new(limits, Clock::seed()),
            shared,
            held: Held::default(),
            calls: FuturesUnordered::new(),
            flushes: VecDeque::new(),
        }
    }

    /// Runs until no handle is left and everything that they took is stored or given up.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let clock = shared.router.clock;
        loop {
            let is_over = shared.is_over();
            self.take(clock.now());
            self.machine.handle(clock.now(), Input::Tick);
            self.act(clock.now());
            if is_over && self.machine.is_idle() {
                return;
            }
            let deadlines = [shared.lingers_until(), self.machine.next_deadline(clock.now())];
            let deadline = deadlines.into_iter().flatten().min();
            tokio::select! {
                Some(fact) = self.calls.next() => self.machine.accept(clock.now(), fact),
                () = shared.wake.notified() => {}
                () = clock.sleep_until(deadline) => {}
            }
            // What else was answered by now leads to one request with the rest.
            while let Some(Some(fact)) = self.calls.next().now_or_never() {
                self.machine.accept(clock.now(), fact);
            }
        }
    }

    /// Takes what handles have left.
    fn take(&mut self, now: Moment) {
        let taken = self.shared.take();
        for sealed in taken.batches {
            let deadline = sealed.since.after(self.shared.config.delivery_timeout);
            let (partition, batch) = self.held.take(sealed, deadline);
            let leader = self.shared.router.leader(&partition);
            self.machine.accept(now, Input::Batch { partition, batch, leader });
        }
        for flush in taken.flushes {
            self.flushes.push_back(flush);
            self.machine.accept(now, Input::Flush);
        }
    }

    /// Carries out everything that the machine wants.
    fn act(&mut self, now: Moment) {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::Initialize => {
                    let shared = Arc::clone(&self.shared);
                    self.calls.push(async move { Input::Initialized(initialize(&shared).await) }.boxed());
                }
                Effect::Produce { produce, identities } => self.produce(&produce, &identities),
                Effect::Split(batch) => {
                    let levels = self.shared.config.batching.levels;
                    let parts = self.held.split(batch, levels, &self.shared.link);
                    self.machine.handle(now, Input::Split { batch, parts });
                }
                Effect::FindLeaders(partitions) => {
                    let shared = Arc::clone(&self.shared);
                    let find = async move {
                        Input::Leaders(produce::leaders(&shared.router, partitions, &[]).await)
                    };
                    self.calls.push(find.boxed());
                }
                Effect::Stored { batch, offset } => _ = self.release(batch, Ok(offset)),
                Effect::Failed { batch, cause } => {
                    let records = self.release(batch, Err(cause.clone()));
                    tracing::warn!(records, %cause, "records are not known to be stored");
                    self.shared.count(records, &cause);
                }
                Effect::Restarted { partition, identity } => {
                    tracing::info!(%partition, %identity, "the partition's sequences begin anew");
                }
                Effect::Flushed => {
                    if let Some(reply) = self.flushes.pop_front() {
                        _ = reply.send(());
                    }
                }
            }
        }
    }

    fn produce(&mut self, produce: &outbox::Produce, identities: &[Identity]) {
        let stamp = |place: usize, item: &outbox::Item| match identities.get(place) {
            Some(identity) => Stamp::Idempotent { identity: *identity, base_sequence: item.sequence },
            None => Stamp::Anonymous,
        };
        let answer = produce::produce(&self.shared.router, &mut self.held, None, produce, stamp);
        self.calls.push(answer.map(produced).boxed());
    }

    fn release(&mut self, batch: BatchId, result: Result<Option<i64>, Cause>) -> u64 {
        self.held.release(batch, result, (&self.shared.link, &self.shared.router.buffers))
    }
}

impl Drop for Task {
    /// At the end of the producer nothing is left; where the runtime ends first, or the task panics, what was sent may be
    /// stored. Those who wait for a flush are let go when everything is counted, for they look at that then.
    fn drop(&mut self) {
        let Taken { batches, flushes } = self.shared.leave();
        for sealed in batches {
            let deadline = sealed.since;
            _ = self.held.take(sealed, deadline);
        }
        let sent =
            Cause::new(CauseKind::OutcomeUnknown, "the producer's task ended before they were acknowledged");
        let unsent = Cause::new(CauseKind::Dropped, "the producer's task ended before they were sent");
        for batch in self.held.names() {
            let cause = if self.held.was_sent(batch) { &sent } else { &unsent };
            let records = self.release(batch, Err(cause.clone()));
            self.shared.count(records, cause);
        }
        self.shared.desert();
        drop(flushes);
    }
}

async fn initialize(shared: &Shared) -> InitFact {
    let call = InitProducerId { transactional_id: None, timeout_ms: 0, own: None };
    match shared.router.ask_any(call).await {
        Ok((code, identity)) => facts::granted(code, identity),
        Err(ClientError::Call(CallError::Exchange(e @ ExchangeError::Unsupported(_)))) => {
            InitFact::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
        }
        Err(error) => {
            tracing::debug!(%error, "no producer id was granted");
            InitFact::Retry
        }
    }
}

/// What an answer to Produce tells the machine.
fn produced(Answer { request, batches }: Answer) -> Input {
    let fact = |said| match said {
        Said::Produced(_, produced, records) => facts::produced_once(&produced, &records),
        Said::NotSent => ProduceFact::Plain(BatchFact::NotSent),
        Said::Unsupported(cause) => ProduceFact::Plain(BatchFact::Refused(cause)),
    };
    let facts = batches.into_iter().map(|(partition, batch, said)| (partition, batch, fact(said)));
    Input::Produced { request, facts: facts.collect() }
}
