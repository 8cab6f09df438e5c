//! x
use std::process::ExitCode;
/// x
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
