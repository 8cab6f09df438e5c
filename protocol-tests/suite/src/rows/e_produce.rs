//! Produce: sequences, retries, order.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
