//! Partitions join a transaction.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
