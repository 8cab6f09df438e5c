//! Offsets of consumer groups in the transaction.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
