//! Owning a state in an object store, for as long as the head says so.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;

use super::head::{Advanced, Head, Heads, Numbered};
use crate::{
    checkpoint::{error::StoreError, owner::Owner},
    net::Clock,
};

/// The part of the lease after which its owner gives a sign of life.
const RENEWALS: u32 = 3;

/// How often a challenger looks while it waits for a sign of life.
const LOOKS: u32 = 6;

/// What the owner of a state holds.
#[derive(Debug)]
pub(super) struct Lease {
    heads: Heads,
    root: PathBuf,
    epoch: u64,
    /// The owner after this one, once it is known.
    lost: OnceLock<Owner>,
    closed: AtomicBool,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    at: Numbered,
    /// An attempt to complete a checkpoint ended without an answer: it may have been done, or be done later, and the job
    /// must ask which one is the newest.
    must_load: bool,
}

impl Lease {
    pub(super) fn new(heads: Heads, root: PathBuf, at: Numbered) -> Self {
        let epoch = at.head.owner.epoch;
        let held = Mutex::new(Held { at, must_load: false });
        Self { heads, root, epoch, lost: OnceLock::new(), closed: AtomicBool::new(false), held }
    }

    /// The names of the checkpoints that are kept, as the store says it now.
    ///
    /// An attempt whose answer was lost may still be on its way. Then looking is not enough: a head is created in its
    /// place, or it is found there. The job goes back to the checkpoint before, and what it aborts then must not be
    /// named by a head that comes late.
    pub(super) async fn kept(&self) -> Result<Vec<Arc<str>>, StoreError> {
        let mut held = self.held.lock().await;
        if held.must_load {
            self.change(&mut held, |_| {}).await?;
            held.must_load = false;
        }
        let found = self.heads.highest().await?.ok_or_else(|| self.heads.missing())?;
        self.adopt(&mut held, found)?;
        Ok(held.at.head.kept.clone())
    }

    /// Refuses if this is known not to be the owner any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if let Some(by) = self.lost.get() {
            return Err(self.fenced(by));
        }
        match self.closed.load(Ordering::Acquire) {
            true => Err(StoreError::Closed { path: self.root.clone() }),
            false => Ok(()),
        }
    }

    /// Makes these the kept checkpoints: the last one is complete then.
    pub(super) async fn complete(&self, kept: Vec<Arc<str>>) -> Result<(), StoreError> {
        let mut held = self.held.lock().await;
        self.check()?;
        if held.must_load {
            return Err(self.uncertain("the newest checkpoint must be loaded first".to_owned()));
        }
        held.must_load = true;
        let done = self.change(&mut held, |head| head.kept.clone_from(&kept)).await;
        match done {
            Ok(()) if held.at.head.kept == kept => {
                held.must_load = false;
                Ok(())
            }
            Ok(()) => Err(self.uncertain("an earlier attempt came late".to_owned())),
            Err(error @ StoreError::Fenced { .. }) => Err(error),
            Err(error) => Err(self.uncertain(error.to_string())),
        }
    }

    /// Gives the state up: the next owner need not wait.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock().await;
        self.closed.store(true, Ordering::Release);
        while !held.at.head.free {
            self.change(&mut held, |head| head.free = true).await?;
        }
        Ok(())
    }

    /// Gives signs of life until the state is given up or lost.
    pub(super) async fn renew(self: Arc<Self>, clock: Clock, lease: Duration) {
        loop {
            clock.sleep_until(Some(clock.now().after(lease / RENEWALS))).await;
            let mut held = self.held.lock().await;
            if self.check().is_err() {
                return;
            }
            match self.change(&mut held, |_| {}).await {
                Ok(()) => {}
                Err(error @ StoreError::Fenced { .. }) => {
                    tracing::error!(%error, "the state has another owner");
                    return;
                }
                Err(error) => tracing::warn!(%error, "no sign of life; tried again"),
            }
        }
    }

    /// Follows the head with a changed one. If an earlier attempt of this owner, whose answer was lost, turns up at that
    /// number, it counts: what it completed may have been seen. Then the job must load again, unless nothing differs.
    async fn change(&self, held: &mut Held, change: impl Fn(&mut Head)) -> Result<(), StoreError> {
        if let Some(by) = self.lost.get() {
            return Err(self.fenced(by));
        }
        loop {
            let mut head = held.at.head.clone();
            change(&mut head);
            let next = Numbered { number: held.at.number + 1, head };
            match self.heads.advance(&next).await? {
                Advanced::Done => {
                    held.at = next;
                    return Ok(());
                }
                Advanced::Found(found) => {
                    let same = found.head.kept == held.at.head.kept;
                    self.adopt(held, found)?;
                    if !same {
                        held.must_load = true;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Goes on from a head of this owner; any other one ends it.
    fn adopt(&self, held: &mut Held, found: Numbered) -> Result<(), StoreError> {
        if found.head.is_of(&held.at.head) {
            held.at = found;
            return Ok(());
        }
        Err(self.fenced(self.lost.get_or_init(|| found.head.owner)))
    }

    fn fenced(&self, by: &Owner) -> StoreError {
        let (epoch, holder) = (self.epoch, Arc::clone(&by.holder));
        StoreError::Fenced { path: self.root.clone(), epoch, by: by.epoch, holder }
    }

    fn uncertain(&self, why: String) -> StoreError {
        StoreError::Uncertain { path: self.root.clone(), why }
    }
}

/// Waits until nobody owns the state: not at all if it was given up, and else as long as its owner may be silent, by
/// this process's own clock. Returns the head to follow.
///
/// # Errors
/// [`StoreError::Locked`] if its owner is alive.
pub(super) async fn wait_for(
    heads: &Heads,
    (clock, lease): (Clock, Duration),
    found: Numbered,
) -> Result<Numbered, StoreError> {
    if found.head.free {
        return Ok(found);
    }
    let lease = lease.max(Duration::from_millis(found.head.lease_ms));
    let deadline = clock.now().after(lease);
    loop {
        // The last look comes after the deadline, so that a whole lease lies between it and the first one.
        let over = clock.now() >= deadline;
        let now = heads.highest().await?.ok_or_else(|| heads.missing())?;
        match now.number == found.number {
            false if now.head.free => return Ok(now),
            false => return Err(heads.locked(&now.head)),
            true if over => return Ok(found),
            true => clock.sleep_until(Some(clock.now().after(lease / LOOKS).min(deadline))).await,
        }
    }
}
