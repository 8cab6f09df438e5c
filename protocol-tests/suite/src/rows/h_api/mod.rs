//! The API: order of calls, cancellation, shutdown.

mod cancel;
mod close;
mod codes;
mod local;
pub(super) mod order;

use cancel::h03;
use close::{h04, h05};
use codes::h06;
use local::{h07, h08, h09};
use order::{h01, h02};

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![h01 h02 h03 h04 h05 h06 h07 h08 h09];
