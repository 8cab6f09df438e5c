//! What every store promises, on an S3 server: the suite of the library's own tests, in real time.
//!
//! The server is somebody else's, run in Python. Without Python these tests are reported as ignored; with `REQUIRE_KAFKA=1`
//! that is a failure.

mod checkpoint;

mod ids {
    pub(crate) use kafka_2pc::ids::*;
}

mod proto {
    pub(crate) use kafka_2pc::proto::*;
}

use std::process::{Command, ExitCode};

use kafka_2pc_protocol_tests::s3::{S3, Writes};
use libtest_mimic::Arguments;

/// Where the environment names the bucket, for the process that runs the tests.
pub(crate) const BUCKET: &str = "KAFKA_2PC_S3_BUCKET";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if std::env::var_os(BUCKET).is_some() || arguments.list {
        return libtest_mimic::run(&arguments, checkpoint::trials(None)).exit_code();
    }
    let is_required = std::env::var("REQUIRE_KAFKA").is_ok_and(|value| value == "1");
    match S3::start(Writes::Conditional) {
        Ok(server) => again(&server),
        Err(error) if error.is_missing() && !is_required => {
            eprintln!("IGNORED the suite on S3: {error}");
            libtest_mimic::run(&arguments, checkpoint::trials(Some("no S3 server"))).exit_code()
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program once more, with the server in its environment, where the library looks for it.
fn again(server: &S3) -> ExitCode {
    let Ok(this) = std::env::current_exe() else { return ExitCode::FAILURE };
    let mut command = Command::new(this);
    command.args(std::env::args_os().skip(1)).envs(server.environment()).env(BUCKET, server.url(""));
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}
