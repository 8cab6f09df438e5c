//! Finding coordinators, and losing them.

mod groups;
mod lookups;
mod moves;

use super::{Row, rows};
use groups::{c01, c03, c09};
use lookups::{c04, c05, c06, c07, c08, c10, c12};
use moves::{c02, c11};

pub(super) const ROWS: &[Row] = rows![c01 c02 c03 c04 c05 c06 c07 c08 c09 c10 c11 c12];
