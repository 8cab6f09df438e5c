//! Finding coordinators, and losing them.

mod lookups;
mod moves;

use super::{Row, rows};
use lookups::{c04, c05, c06, c07, c08, c10, c12};
use moves::{c02, c11};

pub(super) const ROWS: &[Row] = rows![c02 c04 c05 c06 c07 c08 c10 c11 c12];
