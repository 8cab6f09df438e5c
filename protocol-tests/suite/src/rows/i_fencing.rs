//! Two owners of one transactional id.

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![];
