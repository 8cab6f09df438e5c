//! A producer between its transactions.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Either, select},
};

use super::{
    ahead::Ahead,
    calls,
    error::ClientError,
    router::{Purpose, Router},
    settings::ProducerConfig,
    transaction::Transaction,
    writer,
};
use crate::{
    exchange::{InitProducerId, facts},
    ids::{Identity, Moment, TransactionalId},
    net::{Background, CallError, Clock},
    proto::{
        cause::{Cause, CauseKind},
        initialize::{Claim, Effect, Initialize, Input},
        resume::Described,
        verdict::FindCoordinatorVerdict,
    },
    wire::versions::TransactionVersion,
};

/// Makes a [`TransactionalProducer`].
#[derive(Debug, Clone)]
pub struct ProducerBuilder {
    router: Arc<Router>,
    transactional_id: TransactionalId,
    config: ProducerConfig,
}

impl ProducerBuilder {
    pub(crate) fn new(router: Arc<Router>, transactional_id: TransactionalId) -> Self {
        let config = ProducerConfig::default();
        Self { router, transactional_id, config }
    }

    /// `transaction.timeout.ms`: after this time the broker aborts an open transaction, prepared or not.
    /// Default 900 s, which is also what brokers allow at most unless told otherwise.
    #[must_use]
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.config.transaction_timeout = timeout;
        self
    }

    producer_settings! {
        delivery: "`delivery.timeout.ms`: a record that is not acknowledged by then fails the transaction. Default 120 s.",
        linger: "`linger.ms`: how long a batch waits for more records. Default 5 ms. The wait is looked at when the \
                 transaction is used; nothing of a transaction is visible before its commit in any case.",
    }

    /// Takes the transactional id over: fences whoever holds it and aborts what it left open.
    ///
    /// **Never call it for an id that has a prepared transaction which must still be committed.**
    ///
    /// # Errors
    /// [`Cause`]: no coordinator in time, no right to the id, a timeout above the broker's maximum, a codec that is not part of
    /// this build.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the id fenced or not; calling it again is always right.
    pub async fn init(self) -> Result<TransactionalProducer, Cause> {
        self.config.batching.check()?;
        let mut producer = self.idle(Next::Bare);
        let identity = acquire(&producer.shared, Claim::TakeOver).await?;
        producer.next = Next::Fresh(identity);
        Ok(producer)
    }

    /// A producer that asks for its identity with its first transaction.
    ///
    /// The same warning as for [`init`](Self::init) holds.
    #[must_use]
    pub fn lazy(self) -> TransactionalProducer {
        self.idle(Next::Bare)
    }

    /// As [`lazy`](Self::lazy), for an id under which nobody should have a transaction open: if somebody has, it is
    /// reported as a fence and left alone.
    #[must_use]
    pub fn vacant(self) -> TransactionalProducer {
        self.idle(Next::Vacant)
    }

    /// A producer that goes on with the pair that the commit of its id's last transaction returned. It may be used
    /// on transactions V2 only, and is renewed where that is not in use.
    #[must_use]
    pub fn returned(self, identity: Identity) -> TransactionalProducer {
        self.idle(Next::Returned(identity))
    }

    /// A producer that goes on with a pair under which its id's last transaction was written and ended with EndTxn 4
    /// or older. It asks for the next epoch in the form that names this pair, so that a rival is reported.
    #[must_use]
    pub fn used(self, identity: Identity) -> TransactionalProducer {
        self.idle(Next::Used(identity))
    }

    fn idle(self, next: Next) -> TransactionalProducer {
        let shared = Arc::new(Shared {
            router: self.router,
            transactional_id: self.transactional_id,
            config: self.config,
            renewing: Mutex::default(),
            level: Mutex::default(),
        });
        TransactionalProducer::new(shared, next)
    }
}

/// What the next transaction of an id can be written under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is known: the bare form of InitProducerId, which fences.
    Bare,
    /// Nothing is known but that nobody should have a transaction open: whoever has is a rival.
    Vacant,
    /// A pair of ours that was used: the form that names it.
    Used(Identity),
    /// A pair that InitProducerId has just granted.
    Fresh(Identity),
    /// A pair that an EndTxn of version 5 returned; good for transactions V2 only.
    Returned(Identity),
}

pub(crate) struct Shared {
    pub(crate) router: Arc<Router>,
    pub(crate) transactional_id: TransactionalId,
    pub(crate) config: ProducerConfig,
    /// The pair for whose renewal a request may have reached a coordinator, without an answer that we saw: whoever
    /// asked may have gone away since.
    renewing: Mutex<Option<Identity>>,
    /// The last look at the level that was begun beside something else.
    level: Mutex<Option<Background<()>>>,
}

impl Shared {
    fn renewing(&self) -> MutexGuard<'_, Option<Identity>> {
        // A whole value, whatever happened elsewhere.
        self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Sees to it, in the background, that the coordinator's level is known for a while.
    pub(super) fn freshen_level(&self) {
        let (router, id) = (Arc::clone(&self.router), self.transactional_id.clone());
        let look = Background::start(async move {
            if let Ok(Ok(node)) = router.coordinator(&id).await {
                router.freshen_profile(node).await;
            }
        });
        // The one before is of no more use.
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shared").field(&self.transactional_id).finish()
    }
}

impl Next {
    /// The same with the identity that it led to.
    pub(super) fn with(self, identity: Identity, version: TransactionVersion) -> Self {
        match self {
            Self::Returned(_) if version >= TransactionVersion::V2 => self,
            Self::Bare | Self::Vacant | Self::Used(_) | Self::Fresh(_) | Self::Returned(_) => {
                Self::Fresh(identity)
            }
        }
    }

    /// The same after a long time.
    pub(super) fn old(self) -> Self {
        match self {
            Self::Fresh(identity) | Self::Returned(identity) => Self::Used(identity),
            Self::Bare | Self::Vacant | Self::Used(_) => self,
        }
    }

    /// True when InitProducerId comes before a transaction, as far as is known.
    fn is_to_be_asked(self) -> bool {
        match self {
            Self::Bare | Self::Vacant | Self::Used(_) => true,
            Self::Fresh(_) | Self::Returned(_) => false,
        }
    }
}

/// A transactional producer with no open transaction.
#[derive(Debug)]
pub struct TransactionalProducer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) next: Next,
    /// What was begun for the next transaction.
    pub(super) ahead: Option<Ahead>,
    /// When `next` or what was begun was new.
    since: Moment,
}

/// An identity that was got longer ago is got anew. A coordinator forgets an id that is not used for
/// `transactional.id.expiration.ms`, 7 days by default.
const GOOD_FOR: Duration = Duration::from_secs(3600);

impl TransactionalProducer {
    pub(super) fn new(shared: Arc<Shared>, next: Next) -> Self {
        let since = shared.router.clock.now();
        Self { shared, next, ahead: None, since }
    }

    /// Begins in the background what the next transaction needs, if it needs an InitProducerId.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn get_ready(&mut self) {
        if self.next.is_to_be_asked() && self.ahead.is_none() {
            self.freshen();
        }
    }

    /// Sees to it, in the background, that the next transaction can begin in a moment without a question.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn freshen(&mut self) {
        self.since = self.shared.router.clock.now();
        self.ahead = Some(Ahead::start(Arc::clone(&self.shared), self.next, self.ahead.take()));
    }

    /// Begins a transaction. What it costs at the broker is paid in the background.
    ///
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn begin(self) -> Transaction {
        writer::begin(self)
    }

    /// The transactional id.
    #[must_use]
    pub fn transactional_id(&self) -> &TransactionalId {
        &self.shared.transactional_id
    }

    /// Gets the identity of the next transaction now, so that [`begin`](Self::begin) finds it ready. Cheap if
    /// it is there already.
    ///
    /// # Errors
    /// [`Cause`], as [`ProducerBuilder::init`]; fenced if another owner took the id.
    ///
    /// # Cancel safety
    /// Cancel safe: calling it again finishes.
    pub async fn prefetch(&mut self) -> Result<(), Cause> {
        // If this is dropped meanwhile, what was begun is begun again.
        if let Some(ahead) = self.ahead.take() {
            self.next = ahead.reached(self.next).await;
        }
        if self.is_old() {
            self.next = self.next.old();
        }
        let (identity, version) = identity_for(&self.shared, self.next).await?;
        self.next = self.next.with(identity, version);
        self.since = self.shared.router.clock.now();
        Ok(())
    }

    /// Whether the coordinator may have forgotten what the next transaction begins with.
    pub(super) fn is_old(&self) -> bool {
        self.shared.router.clock.now().since(self.since) >= GOOD_FOR
    }
}

/// The identity and the rules of the next transaction.
///
/// One transaction per (producer id, epoch); a transaction of V1 begins only directly after InitProducerId.
pub(crate) async fn identity_for(
    shared: &Shared,
    next: Next,
) -> Result<(Identity, TransactionVersion), Cause> {
    let level = |node| async move { shared.router.transaction_version(node).await };
    // The level is asked for beside the identity, and behind it only if that took long. Nobody waits for the former.
    let claimed = |claim| async move {
        let ahead = pin!(async { Some(level(find(shared).await.ok()?).await) });
        match select(pin!(acquire(shared, claim)), ahead).await {
            Either::Left((identity, _)) => identity,
            Either::Right((_, acquiring)) => acquiring.await,
        }
    };
    let identity = match next {
        Next::Fresh(identity) | Next::Returned(identity) => identity,
        Next::Bare => claimed(Claim::TakeOver).await?,
        Next::Vacant => claimed(Claim::Vacant).await?,
        Next::Used(own) if cfg!(planted_bug = "reuse-the-epoch") => own,
        Next::Used(own) => claimed(Claim::Renew(own)).await?,
    };
    let mut backoff =
        crate::proto::backoff::Backoff::new(Duration::from_millis(20), Duration::from_secs(1), Clock::seed());
    let deadline = shared.router.clock.now().after(shared.router.config.max_block);
    let version = loop {
        let error = match find(shared).await {
            Ok(node) => match level(node).await {
                Ok(version) => break version,
                Err(e) => e.to_string(),
            },
            Err(Input::Refused(cause)) => return Err(cause),
            Err(_) => "no coordinator".into(),
        };
        shared.router.forget_coordinator(&shared.transactional_id);
        if shared.router.clock.now() >= deadline {
            return Err(Cause::new(CauseKind::Unreachable, error));
        }
        tokio::time::sleep(backoff.next_wait()).await;
    };
    match next {
        Next::Returned(own) if version < TransactionVersion::V2 => {
            Ok((acquire(shared, Claim::Renew(own)).await?, version))
        }
        Next::Bare | Next::Vacant | Next::Used(_) | Next::Fresh(_) | Next::Returned(_) => {
            Ok((identity, version))
        }
    }
}

/// Drives the initialize machine.
pub(crate) async fn acquire(shared: &Shared, claim: Claim) -> Result<Identity, Cause> {
    if shared.transactional_id.as_str().is_empty() {
        let detail = "transactional.id is empty: a writer of transactions needs one of its own";
        return Err(Cause::new(CauseKind::Refused, detail));
    }
    let clock = shared.router.clock;
    let mut machine = Initialize::new(clock.now(), claim, shared.router.config.max_block, Clock::seed());
    if matches!(claim, Claim::Renew(own) if *shared.renewing() == Some(own)) {
        machine = machine.after_lost_answer();
    }
    let mut call: Option<BoxFuture<'_, Input>> = None;
    if !shared.router.knows_coordinator(&shared.transactional_id) {
        shared.router.open_where_it_may_be(Purpose::Identity);
    }
    loop {
        while let Some(effect) = machine.poll_effect() {
            match effect {
                Effect::Ask { own } => call = Some(ask(shared, own).boxed()),
                Effect::AbortOwn(own) => {
                    call = Some(calls::abort(shared, own, TransactionVersion::V1).map(Input::Ended).boxed());
                }
                Effect::ForgetCoordinator => shared.router.forget_coordinator(&shared.transactional_id),
                Effect::Describe => call = Some(describe(shared).boxed()),
                Effect::Tell { waited, seen } => {
                    let id = &shared.transactional_id;
                    tracing::warn!(transactional_id = %id, waited_ms = waited.as_millis(), "no identity was granted yet: {seen}");
                }
                Effect::Done(result) => {
                    if result.is_ok() {
                        *shared.renewing() = None;
                    }
                    return result;
                }
            }
        }
        let deadline = machine.next_deadline();
        let answered = async {
            match &mut call {
                Some(call) => call.await,
                None => std::future::pending().await,
            }
        };
        let input = tokio::select! {
            input = answered => {
                call = None;
                input
            }
            () = clock.sleep_until(deadline) => Input::Tick,
        };
        machine.handle(clock.now(), input);
    }
}

async fn ask(shared: &Shared, own: Option<Identity>) -> Input {
    let node = match find(shared).await {
        Ok(node) => node,
        Err(input) => return input,
    };
    let timeout_ms = i32::try_from(shared.config.transaction_timeout.as_millis()).unwrap_or(i32::MAX);
    let call = InitProducerId { transactional_id: Some(shared.transactional_id.clone()), timeout_ms, own };
    let before = std::mem::replace(&mut *shared.renewing(), own);
    let input = match shared.router.ask(node, Purpose::Identity, call).await {
        Ok((code, identity)) => facts::initialized(code, identity, timeout_ms),
        Err(e) => no_answer(&e),
    };
    if !input.leaves_doubt() {
        *shared.renewing() = before;
    }
    input
}

fn no_answer(e: &CallError) -> Input {
    match e {
        CallError::Exchange(e @ crate::exchange::ExchangeError::Unsupported(_)) => {
            Input::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
        }
        CallError::NotKafka(_) => Input::Refused(Cause::new(CauseKind::Unreachable, e.to_string())),
        CallError::NotSent(_) | CallError::MaybeSent(_) | CallError::Exchange(_) => {
            Input::NoAnswer { sent: e.outcome_unknown(), detail: e.to_string() }
        }
    }
}

async fn describe(shared: &Shared) -> Input {
    let Ok(node) = find(shared).await else { return Input::Described(None) };
    let answer = shared.router.look(node, &shared.transactional_id).await;
    Input::Described(match answer.map(|d| facts::described(&d)) {
        Ok(Described::Transaction(view)) => Some(view),
        Ok(Described::NotFound | Described::Relookup | Described::Retry | Described::Blind) | Err(_) => None,
    })
}

/// The coordinator, or what to tell the machine instead.
async fn find(shared: &Shared) -> Result<crate::ids::NodeId, Input> {
    match shared.router.coordinator(&shared.transactional_id).await {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(e)) => Err(match e.verdict {
            FindCoordinatorVerdict::Denied => Input::Refused(Cause::new(CauseKind::Denied, e.detail)),
            FindCoordinatorVerdict::Fatal => Input::Refused(Cause::new(CauseKind::Unsupported, e.detail)),
            FindCoordinatorVerdict::Found
            | FindCoordinatorVerdict::Retry
            | FindCoordinatorVerdict::Abortable => Input::NoAnswer { sent: false, detail: e.detail },
        }),
        Err(ClientError::Call(e)) => Err(no_answer(&e)),
        Err(e) => Err(Input::NoAnswer { sent: false, detail: e.to_string() }),
    }
}
