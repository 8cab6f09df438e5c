//! Producer ids and epochs.

mod bump;
mod doubt;
mod owners;
mod reuse;
mod start;

use bump::{b10, b11, b12, b14, b16, b23};
use doubt::{b19, b20, b21, b24};
use owners::{b02, b07, b08, b13};
use reuse::{b15, b17, b18, b22};
use start::{b01, b03, b04, b05, b06, b09};

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![b01 b02 b03 b04 b05 b06 b07 b08 b09 b10 b11 b12 b13 b14 b15 b16 b17 b18 b19 b20 b21
    b22 b23 b24];
