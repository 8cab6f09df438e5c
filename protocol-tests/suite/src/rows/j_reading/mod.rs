//! Reading what is committed.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
