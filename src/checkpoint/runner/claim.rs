//! One job of a process per prefix: two would abort each other's transactions, each as the other's leftovers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::proto::naming::IdPrefix;

type Key = (Arc<str>, IdPrefix);

static CLAIMED: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// A prefix of a cluster that belongs to one job of this process for as long as this is kept.
#[derive(Debug)]
pub(super) struct Claim(Key);

impl Claim {
    /// `None` while somebody else has it.
    pub(super) fn on(cluster_id: Arc<str>, prefix: &IdPrefix) -> Option<Self> {
        let key = (cluster_id, prefix.clone());
        claimed().insert(key.clone()).then(|| Self(key))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        claimed().remove(&self.0);
    }
}

fn claimed() -> MutexGuard<'static, BTreeSet<Key>> {
    // Whole after every statement.
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_jobs_until_it_lets_go_and_another_clusters_at_any_time() {
        let (cluster, prefix): (Arc<str>, _) = ("claimed".into(), IdPrefix::new("p").unwrap());
        let first = Claim::on(Arc::clone(&cluster), &prefix).unwrap();
        assert!(Claim::on(Arc::clone(&cluster), &prefix).is_none());
        assert!(Claim::on("another".into(), &prefix).is_some());
        assert!(Claim::on(Arc::clone(&cluster), &IdPrefix::new("p-0").unwrap()).is_some());
        drop(first);
        assert!(Claim::on(cluster, &prefix).is_some());
    }
}
