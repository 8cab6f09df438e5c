//! The API: order of calls, cancellation, shutdown.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
