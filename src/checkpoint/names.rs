//! The names of things in a store. They say what is in them, and no two things have the same one.

use std::fmt;

use crate::proto::committable::Committable;

/// What the names of committables end with.
pub(super) const COMMITTABLE: &str = ".committable";

/// What the names of states end with.
pub(super) const STATE: &str = ".state";

/// What the names of checkpoints begin with; 20 digits follow.
const CHECKPOINT: &str = "checkpoint-";

/// The name of a checkpoint.
pub(super) fn checkpoint_name(id: u64) -> String {
    format!("{CHECKPOINT}{id:020}")
}

/// The number of a checkpoint with this name.
pub(super) fn checkpoint_id(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(CHECKPOINT)?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The name of one attempt to write a checkpoint, where several owners may try.
#[cfg(feature = "object-store")]
pub(super) fn attempt_name(id: u64, owner_epoch: u64, attempt: u64) -> String {
    format!("{}-{owner_epoch}-{attempt}", checkpoint_name(id))
}

/// The number of the checkpoint that this attempt was to write.
#[cfg(feature = "object-store")]
pub(super) fn attempt_id(name: &str) -> Option<u64> {
    checkpoint_id(name.rsplit_once('-')?.0.rsplit_once('-')?.0)
}

/// The epoch of the owner that made this attempt.
#[cfg(feature = "object-store")]
pub(super) fn attempt_owner(name: &str) -> Option<u64> {
    let (before, _attempt) = name.strip_prefix(CHECKPOINT)?.rsplit_once('-')?;
    before.rsplit_once('-')?.1.parse().ok()
}

/// The name of a committable: no two prepared transactions have the same producer id and epoch.
pub(super) fn committable_name(committable: &Committable) -> String {
    let (id, identity) = (committable.transactional_id.as_str(), committable.identity);
    format!("{}.{}.{}{COMMITTABLE}", readable(id), identity.producer_id, identity.epoch)
}

/// The name of a state: no two owners have the same epoch, and none counts a number twice.
pub(super) struct StateName<'a> {
    pub(super) label: &'a str,
    pub(super) owner_epoch: u64,
    pub(super) number: u64,
}

impl fmt::Display for StateName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{STATE}", readable(self.label), self.owner_epoch, self.number)
    }
}

/// The epoch of the owner that put the state with this name.
pub(super) fn state_owner(name: &str) -> Option<u64> {
    let (before, _number) = name.strip_suffix(STATE)?.rsplit_once('.')?;
    before.rsplit_once('.')?.1.parse().ok()
}

/// What could not stand in a name is replaced, and a checksum of the whole text keeps apart what became equal.
fn readable(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let readable: String = text.chars().take(80).map(plain).collect();
    format!("{readable}.{:08x}", crc32c::crc32c(text.as_bytes()))
}
