//! Lines of files or of the standard input, with positions that can be kept and found again.

mod hash;
mod input;
mod position;
mod source;

pub use hash::InputHash;
pub use input::{Input, InputError, LinesInput};
pub use position::InputPosition;
pub use source::LinesSource;

/// What is done with a line that is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadLine {
    /// Everything before it is committed, and the job stops at it.
    #[default]
    Stop,
    /// It is reported and passed over.
    Skip,
}
