//! The two-phase sink.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
