//! Coordinators: finding them, and what happens when they move.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
