//! Connections, versions, metadata.

mod addresses;
mod links;
mod metadata;
mod versions;

use super::{Row, rows};
use addresses::{a11, a12, a13};
use links::{a06, a07, a08, a09, a10, a19};
use metadata::{a14, a15, a16, a17, a18, a23};
use versions::{a01, a02, a03, a04, a05, a20, a22};

pub(super) const ROWS: &[Row] = rows![
    a01 a02 a03 a04 a05 a06 a07 a08 a09 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20 a22 a23
];
