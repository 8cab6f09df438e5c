//! What the bench programs share: options, workloads, and how they measure.

pub mod cluster;
pub mod codec;
pub mod measure;
pub mod null;
pub mod options;
pub mod server;
pub mod workload;
