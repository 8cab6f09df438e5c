//! Runs a job on one machine: sources, operators and a sink, each as several subtasks, with checkpoints through all of
//! them.
//!
//! ```text
//!   source-0 ─┐           ┌─► count-0 ─┐
//!             ├─ key_by ──┤            ├─► sink-0      every arrow is a bounded queue,
//!   source-1 ─┘           └─► count-1 ─┘               barriers travel in it among the records
//!      ▲  │                   │   ▲        │  ▲
//!      │  └────── ack ────────┴───│────────┘  │
//!   trigger                       │           │ notify
//!      └──────────── coordinator ─┴───────────┘
//!                        │ every ack is in: store, then notify; the sink commits
//! ```
//! After a crash, [`Pipeline::run`] with the same store goes on: it commits what the last complete checkpoint lists,
//! aborts what it does not, gives sources their positions and operators their state.

mod attempt;
mod build;
mod channel;
mod claim;
mod commits;
mod config;
mod counters;
mod error;
mod event;
mod gate;
mod graph;
mod in_flight;
mod keeper;
mod keyed;
mod offsets;
mod operator;
mod operator_task;
mod output;
mod port;
mod restore;
mod run;
mod sink_task;
mod source_task;
mod summary;

pub use config::{IdleCheckpoints, OnHanging, RunConfig, Snapshots, StopAfter};
pub use error::{RunError, TaskError};
pub use event::{JobEvent, Observer, Role, TaskName};
pub use graph::{GraphError, Pipeline, SinkSpec, Stream};
pub use keyed::KEY_GROUPS;
pub use operator::{Context, Operator, OperatorError};
pub(in crate::checkpoint) use summary::gone_records;
pub use summary::{HangingTransaction, LostTransaction, OpenCommittable, RunSummary};
