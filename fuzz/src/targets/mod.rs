//! The targets: functions of any bytes, which panic where a promise is broken.

mod batch;
mod batch_peer;
mod broker;
mod coordinator;
mod decompress;
mod fetch;
mod frames;
mod kept;
mod log;
mod transaction;

pub use batch::batch;
pub use batch_peer::batch_peer;
pub use broker::{SEPARATOR, broker};
pub use coordinator::coordinator;
pub use decompress::decompress;
pub use fetch::fetch;
pub use frames::{frame, request, response};
pub use kept::{checkpoint, committable, flink, record, writer_state};
pub use log::read_committed;
pub use transaction::transaction;

/// A target and its name, which is also that of its file in `fuzz_targets` and of its folders in `corpus` and `cases`.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Target; 16] = [
    ("request", request),
    ("response", response),
    ("frame", frame),
    ("batch", batch),
    ("batch_peer", batch_peer),
    ("decompress", decompress),
    ("fetch", fetch),
    ("read_committed", read_committed),
    ("committable", committable),
    ("flink", flink),
    ("writer_state", writer_state),
    ("checkpoint", checkpoint),
    ("record", record),
    ("transaction", transaction),
    ("coordinator", coordinator),
    ("broker", broker),
];
