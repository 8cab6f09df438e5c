//! How transactions end.

mod abort;
mod doubt;
mod errors;
mod flush;
mod late;
mod outcome;

use abort::{g07, g08, g09};
use doubt::{g03, g04, g05, g11, g18, g19};
use errors::g02;
use flush::{g01, g06, g10, g13, g15};
use late::{g16, g17};
use outcome::{g12, g14};

use super::{Row, rows};

pub(super) const ROWS: &[Row] =
    rows![g01 g02 g03 g04 g05 g06 g07 g08 g09 g10 g11 g12 g13 g14 g15 g16 g17 g18 g19];
