//! The head of a state in an object store: who owns it, and which checkpoints are complete.
//!
//! ```text
//! heads/00000000000000000041   owner 3, checkpoints 16, 17
//! heads/00000000000000000042   owner 3, checkpoints 17, 18     the highest number counts
//! ```
//! Heads are numbered objects, and each is only ever created: of several that want to follow number 42, one creates 43.
//! That needs nothing but "create if there is none", which every store has, also one of local files. An object that
//! was superseded is removed, so that somebody who was asleep may create its number once more; a look at all numbers
//! after creating one shows that. The highest number never goes away.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use super::bucket::{Bucket, Created, Folder};
use crate::{
    checkpoint::{error::StoreError, owner::Owner},
    proto::sealed::{Fields, Reader, Seal, StateError},
};

const SEAL: Seal = Seal { what: "head of a state", magic: *b"K2PH", newest: 1 };

/// What a head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) owner: Owner,
    /// Tells this owner from another of the same epoch that came too late.
    pub(super) nonce: u64,
    /// How long the owner may be silent before others may take over.
    pub(super) lease_ms: u64,
    /// True when the owner has given the state up.
    pub(super) free: bool,
    /// The checkpoints that are kept, by name, oldest first. The last one is the newest.
    pub(super) kept: Vec<Arc<str>>,
}

/// A head and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) head: Head,
}

/// Whether a head was created.
#[derive(Debug)]
pub(super) enum Advanced {
    Done,
    /// This one stands there instead.
    Found(Numbered),
}

impl Head {
    /// True if both are of the same owner.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.owner.epoch == other.owner.epoch && self.nonce == other.nonce
    }

    fn to_bytes(&self) -> Bytes {
        let fields = self.owner.write(Fields::default()).u64(self.nonce).u64(self.lease_ms);
        let fields = fields.u8(u8::from(self.free)).list(&self.kept, |fields, name| fields.text(name));
        SEAL.seal(fields).into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let head = Self {
            owner: Owner::read(&mut fields)?,
            nonce: fields.u64()?,
            lease_ms: fields.u64()?,
            free: fields.u8()? != 0,
            kept: fields.list(Reader::text)?,
        };
        fields.finish(head)
    }
}

/// The heads of one state.
#[derive(Debug, Clone)]
pub(super) struct Heads(Bucket);

impl Heads {
    pub(super) fn new(bucket: Bucket) -> Self {
        Self(bucket)
    }

    /// The head that counts.
    pub(super) async fn highest(&self) -> Result<Option<Numbered>, StoreError> {
        loop {
            let Some(number) = self.numbers().await?.pop() else { return Ok(None) };
            // If it was superseded and removed in this moment, there is a higher one.
            if let Some(head) = self.read(number).await? {
                return Ok(Some(Numbered { number, head }));
            }
        }
    }

    /// Creates the head that follows the highest. After an error it may be there or not, now or later.
    pub(super) async fn advance(&self, next: &Numbered) -> Result<Advanced, StoreError> {
        let bytes = next.head.to_bytes();
        if self.0.create(Folder::Heads, &name(next.number), bytes).await? == Created::Before {
            match self.read(next.number).await? {
                // Our own, whose answer was lost.
                Some(head) if head == next.head => {}
                Some(head) if head.is_of(&next.head) => {
                    return Ok(Advanced::Found(Numbered { number: next.number, head }));
                }
                Some(_) | None => return self.lost().await,
            }
        }
        let mut numbers = self.numbers().await?;
        if numbers.pop() != Some(next.number) {
            return self.lost().await;
        }
        let superseded: Vec<_> = numbers.into_iter().map(name).collect();
        // What stays only takes space: the next one removes it.
        join_all(superseded.iter().map(|old| self.0.remove(Folder::Heads, old))).await;
        Ok(Advanced::Done)
    }

    async fn lost(&self) -> Result<Advanced, StoreError> {
        match self.highest().await? {
            Some(found) => Ok(Advanced::Found(found)),
            None => Err(self.missing()),
        }
    }

    /// Heads do not vanish by themselves.
    pub(super) fn missing(&self) -> StoreError {
        StoreError::BadState { path: self.0.path(Folder::Heads, ""), why: "it is missing".to_owned() }
    }

    /// Somebody else owns the state.
    pub(super) fn locked(&self, by: &Head) -> StoreError {
        StoreError::Locked { path: self.0.root(), holder: Arc::clone(&by.owner.holder) }
    }

    async fn read(&self, number: u64) -> Result<Option<Head>, StoreError> {
        let Some(bytes) = self.0.read(Folder::Heads, &name(number)).await? else { return Ok(None) };
        let path = self.0.path(Folder::Heads, &name(number));
        match Head::from_bytes(&bytes) {
            Ok(head) => Ok(Some(head)),
            Err(cause) => Err(StoreError::unreadable(path, cause, None)),
        }
    }

    /// Every number, the highest last.
    async fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        let names = self.0.names(Folder::Heads).await?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn name(number: u64) -> String {
    format!("{number:020}")
}
