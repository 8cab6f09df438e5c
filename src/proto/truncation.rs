//! Whether a log is still the one that was read (KIP-320).
//!
//! ```text
//! what was read   [epoch 0: 0..4][epoch 1: 5..9]           position 10, last epoch 1
//! an unclean election, and writing goes on
//! the leader's    [epoch 0: 0..4][epoch 2: 5..7]           "epoch 0 ends at 5": it is the same up to there
//! ```
//! An epoch is written by one leader, so that two logs with one last epoch are the same up to the end of the shorter one.

use crate::wire::fetch::EpochEnd;

/// The offset up to which a log is the one that was read; nothing if that is so up to `position`.
///
/// `last_epoch` is that of the last batch before the position; `end` is what the leader says of the largest epoch that it
/// has and that is not above.
#[must_use]
pub fn kept(position: i64, last_epoch: Option<i32>, end: EpochEnd) -> Option<i64> {
    let last_epoch = last_epoch?;
    let parted = end.epoch < last_epoch || end.end_offset < position;
    // An epoch above the one that was asked about says nothing of it.
    let says_something = end.epoch <= last_epoch && end.end_offset >= 0;
    (parted && says_something).then_some(end.end_offset.min(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(position: i64, last_epoch: i32, epoch: i32, end_offset: i64) -> Option<i64> {
        kept(position, Some(last_epoch), EpochEnd { epoch, end_offset })
    }

    #[test]
    fn a_log_that_holds_what_was_read_is_the_same() {
        assert_eq!(of(10, 1, 1, 10), None);
        assert_eq!(of(10, 1, 1, 12), None);
    }

    #[test]
    fn a_shorter_epoch_or_an_older_one_tells_where_logs_part() {
        assert_eq!(of(10, 1, 1, 7), Some(7));
        assert_eq!(of(10, 1, 0, 5), Some(5));
        // The older epoch is longer there than here: nothing behind the position was read.
        assert_eq!(of(10, 1, 0, 12), Some(10));
        assert_eq!(of(10, 1, 0, 0), Some(0));
    }

    #[test]
    fn what_makes_no_sense_truncates_nothing() {
        assert_eq!(of(10, 1, 2, 5), None);
        assert_eq!(of(10, 1, 0, -1), None);
        assert_eq!(kept(10, None, EpochEnd { epoch: 0, end_offset: 5 }), None);
    }
}
