//! Hostile input: what no broker should send.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
