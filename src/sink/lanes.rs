//! Connections to coordinators that commits are spread over.

use std::sync::{Arc, Mutex, PoisonError};

/// How many commits use each connection.
#[derive(Debug, Clone)]
pub(super) struct Lanes(Arc<Mutex<Vec<usize>>>);

/// A commit's hold on a connection; it is released when this is dropped.
#[derive(Debug)]
pub(super) struct Lane {
    lanes: Lanes,
    number: u16,
}

impl Lanes {
    /// So many connections, at least one.
    pub(super) fn new(count: u16) -> Self {
        Self(Arc::new(Mutex::new(vec![0; usize::from(count.max(1))])))
    }

    /// The first one of those with the fewest commits: another one is opened only when those that are open are in use.
    pub(super) fn take(&self) -> Lane {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, uses) = (0u16..).zip(busy.iter_mut()).min_by_key(|(_, uses)| **uses).unzip();
        if let Some(uses) = uses {
            *uses += 1;
        }
        Lane { lanes: self.clone(), number: number.unwrap_or(0) }
    }
}

impl Lane {
    /// The connection's number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut busy = self.lanes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uses) = busy.get_mut(usize::from(self.number)) {
            *uses = uses.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_spread_and_a_connection_that_is_free_is_used_again() {
        let lanes = Lanes::new(3);
        let mut held: Vec<Lane> = (0..4).map(|_| lanes.take()).collect();
        assert_eq!(held.iter().map(Lane::number).collect::<Vec<_>>(), [0, 1, 2, 0]);
        held.remove(1);
        assert_eq!(lanes.take().number(), 1);
        held.clear();
        assert_eq!(lanes.take().number(), 0);
        assert_eq!(Lanes::new(0).take().number(), 0);
    }
}
