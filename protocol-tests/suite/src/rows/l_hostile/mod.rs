//! Hostile input: what no broker should send.
//!
//! A tap plays it, in place of an answer of the embedded broker. Whatever comes, nothing panics, memory stays bounded, the
//! call ends in time, and the same client goes on: see `play` and `watch`.

mod batches;
mod bodies;
mod envelopes;
mod frames;
mod logs;
mod meaning;
mod numbers;
mod play;
mod reading;
mod watch;

use batches::{l22, l23, l24};
use bodies::{l10, l11, l12, l13, l14, l15, l16};
use envelopes::{l07, l08, l09};
use frames::{l01, l02, l03, l04, l05, l06};
use logs::{l25, l26, l27};
use meaning::{l17, l18, l19, l20, l21};
use numbers::{l28, l29, l30};

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    l01 l02 l03 l04 l05 l06 l07 l08 l09 l10 l11 l12 l13 l14 l15 l16 l17 l18 l19 l20 l21 l22 l23 l24 l25 l26 l27 l28 l29
    l30
];
