//! Partitions of a transaction.

mod members;
mod refused;

use super::{Row, rows};
use members::{d01, d02, d03, d05, d09, d11, d12, d14};
use refused::{d04, d06, d07, d08, d10, d13};

pub(super) const ROWS: &[Row] = rows![d01 d02 d03 d04 d05 d06 d07 d08 d09 d10 d11 d12 d13 d14];
