//! What the bench programs share: options, workloads, and how they measure.

pub mod measure;
pub mod options;
pub mod server;
pub mod workload;
