//! The rows that need a real Kafka.

use crate::{options::Options, report::Row, run::Programs};

/// Rows on real Kafka, or why they are missing.
pub(crate) fn rows(options: &Options, _programs: &Programs) -> Vec<Row> {
    let ids = ["P9", "S2", "S3", "S4", "S5", "S9"];
    let wanted = ids.into_iter().filter(|id| options.wants(id));
    wanted.map(|id| Row::missing(id, String::new(), "needs real Kafka: --real".into())).collect()
}
