//! A broker in a process of its own, so that what is counted is the client's.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// It ends with this.
pub(crate) struct Broker {
    process: Child,
    /// Its address.
    pub(crate) bootstrap: String,
}

impl Broker {
    /// A program whose first line is the address that it serves, and which lives as long as its input is open.
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut bootstrap = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut bootstrap).unwrap();
        Self { process, bootstrap: bootstrap.trim().to_owned() }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Both fail only if it is gone.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
