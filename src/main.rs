//! The program `kafka-2pc`; all of it is in the library's module `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kafka_2pc::cli::main()
}
