//! Produce: sequences, retries, order.

mod deadlines;
mod order;
mod records;
mod repeats;

use super::{Row, rows};
use deadlines::{e06, e07, e08, e21};
use order::{e01, e03, e05, e10, e11, e12, e13};
use records::{e09, e17, e18, e19, e22};
use repeats::{e02, e04, e14, e15, e16, e20, e23};

pub(super) use repeats::{answer_with, breathe, numbered, repeats_are_identical, while_the_leader_moves};

pub(super) const ROWS: &[Row] = rows![
    e01 e02 e03 e04 e05 e06 e07 e08 e09 e10 e11 e12 e13 e14 e15 e16 e17 e18 e19 e20 e21 e22 e23
];
