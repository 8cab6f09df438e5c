//! The two-phase sink.

mod commits;
mod compaction;
mod evidence;
mod ids;
mod job;
mod leaderless;
mod recovery;
mod rescale;
mod runs;
mod stores;
mod troubles;
mod values;

use commits::{k02, k03, k04, k05, k06, k07, k22, k26};
use compaction::k34;
use evidence::{k32, k33, k35};
use ids::{k09, k10, k23, k29};
use leaderless::{k31, k36};
use recovery::{k08, k14, k15, k20, k21, k24, k25};
use rescale::{k16, k17};
use runs::{k19, k27, k30};
use stores::k28;
use troubles::{k11, k12, k13};
use values::{k01, k18};

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    k01 k02 k03 k04 k05 k06 k07 k08 k09 k10 k11 k12 k13 k14 k15 k16 k17 k18 k19 k20 k21 k22 k23 k24 k25 k26 k27 k28 k29
    k30 k31 k32 k33 k34 k35 k36
];
