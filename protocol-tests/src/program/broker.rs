//! The program's own broker as a child process.

use std::time::{Duration, Instant};

use super::{Program, ProgramError, Running};
use crate::kafka::{self, PortBlock};

const READY_LIMIT: Duration = Duration::from_secs(15);

/// A running `kafka-2pc broker`, empty at its start. Dropped, it is killed.
#[derive(Debug)]
pub struct Broker {
    process: Running,
    address: String,
    _ports: PortBlock,
}

impl Broker {
    /// Starts it on a free port, and returns when it answers and says its level.
    pub(super) fn start(program: &Program, level: u8, options: &[String]) -> Result<Self, ProgramError> {
        let ports = PortBlock::anywhere().map_err(|e| strange(&e.to_string(), ""))?;
        let address = format!("127.0.0.1:{}", ports.broker(1));
        let profile = match level {
            0 => "kafka-4.4-v0",
            1 => "kafka-4.4-v1",
            _ => "kafka-4.4",
        };
        let words = ["broker", "--listen", &address, "--profile", profile].map(str::to_owned);
        let process = program.invoke(words.iter().chain(options).cloned()).start()?;
        let mut broker = Self { process, address, _ports: ports };
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let said = kafka::transaction_version(&broker.address);
            if said.as_ref().is_ok_and(|said| *said == i16::from(level)) {
                return Ok(broker);
            }
            let ended = broker.process.ended_within(Duration::from_millis(50))?;
            if ended || Instant::now() >= deadline {
                let what = format!("the broker is not ready at level {level}: {said:?}");
                return Err(strange(&what, &broker.process.output()));
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn strange(what: &str, output: &str) -> ProgramError {
    ProgramError::Strange { what: what.into(), output: output.into() }
}
