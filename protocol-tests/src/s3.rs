//! An S3 server of somebody else, for tests: moto, run by `readers/s3.py` in a Python environment of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::foreign::{ForeignError, Venv};
use crate::process::{Guarded, Watchdog};

/// The bucket that is there.
const BUCKET: &str = "states";
const SCRIPT: &str = "s3.py";
/// Python imports a lot before the first line.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A running server with an empty bucket. Dropped, it is killed, and everything in it is gone.
#[derive(Debug)]
pub struct S3 {
    _process: Guarded,
    folder: TempDir,
    address: String,
}

/// What a server can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// `If-None-Match: *` is honoured, as in S3.
    Conditional,
    /// It is passed over, and what is there is overwritten.
    Unconditional,
}

/// A request that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `PUT`, `GET`, `DELETE`, `POST`; `LIST` for a listing.
    pub method: String,
    /// The object's path in the bucket.
    pub path: String,
    /// Whether it was to be created only if there is none.
    pub conditional: bool,
    /// The answer.
    pub status: u16,
}

impl S3 {
    /// Starts one, with Python's packages from the cache or else installed.
    ///
    /// # Errors
    /// Python is missing, its packages can not be installed, or the server does not come up.
    pub fn start(writes: Writes) -> Result<Self, ForeignError> {
        let venv = Venv::for_s3()?;
        let watchdog = Arc::new(Watchdog::start(None).map_err(ForeignError::io("start the watchdog"))?);
        let folder = tempfile::tempdir().map_err(ForeignError::io("create a temporary folder"))?;
        let file = |name: &str| {
            File::create(folder.path().join(name)).map_err(ForeignError::io("create an output file"))
        };
        let down = folder.path().join("down").display().to_string();
        let mut arguments = vec![Venv::script(SCRIPT), BUCKET.to_owned(), down];
        if writes == Writes::Unconditional {
            arguments.push("--no-conditions".to_owned());
        }
        let mut process = watchdog
            .spawn_split(&venv.python(), &arguments, file("out")?, file("err")?)
            .map_err(ForeignError::io("start s3.py"))?;
        let address = wait_for_address(&mut process, folder.path())?;
        Ok(Self { _process: process, folder, address })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The URL of a state in its bucket.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// What the program's environment must say to find it. The secret is [`SECRET`].
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.address.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "AKIDOFTESTS".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    /// From now on every request is answered with 503, and nothing is done.
    ///
    /// # Errors
    /// [`ForeignError::Io`].
    pub fn take_down(&self) -> Result<(), ForeignError> {
        std::fs::write(self.down(), "").map_err(ForeignError::io("take the server down"))
    }

    /// From now on requests are served again.
    ///
    /// # Errors
    /// [`ForeignError::Io`].
    pub fn bring_up(&self) -> Result<(), ForeignError> {
        std::fs::remove_file(self.down()).map_err(ForeignError::io("bring the server up"))
    }

    fn down(&self) -> PathBuf {
        self.folder.path().join("down")
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        let text = std::fs::read(self.folder.path().join("out")).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().skip(1).filter_map(request).collect()
    }

    /// How many requests of each method there were so far.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in self.requests() {
            *counts.entry(request.method).or_default() += 1;
        }
        counts
    }
}

/// The secret key that the program is given, which it must not tell.
pub const SECRET: &str = "hush-hush-hush";

fn wait_for_address(process: &mut Guarded, folder: &Path) -> Result<String, ForeignError> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let deadline = std::time::Instant::now() + READY_LIMIT;
    loop {
        let out = text("out");
        if let Some((address, _)) = out.split_once('\n').filter(|(line, _)| line.starts_with("http://")) {
            return Ok(address.to_owned());
        }
        let ended =
            process.exit_within(Duration::from_millis(50)).map_err(ForeignError::io("wait for s3.py"))?;
        if ended.is_some() || std::time::Instant::now() >= deadline {
            let outcome = ended.map_or_else(|| "did not come up".to_owned(), |exit| exit.to_string());
            return Err(ForeignError::Failed { script: SCRIPT, outcome, output: text("err") });
        }
    }
}

fn request(line: &str) -> Option<Request> {
    let mut words = line.split(' ');
    let (method, path, condition, status) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (method, path) = if path == "LIST" { ("LIST", "") } else { (method, path) };
    let path = path.trim_start_matches('/').trim_start_matches(BUCKET).trim_start_matches('/');
    Some(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        conditional: condition == "*",
        status: status.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_lines() {
        let put = request("PUT /states/p/heads/1 * 412").unwrap();
        assert_eq!((put.method.as_str(), put.path.as_str()), ("PUT", "p/heads/1"));
        assert_eq!((put.conditional, put.status), (true, 412));
        assert_eq!(request("GET LIST - 200").unwrap().method, "LIST");
        assert_eq!(request("Traceback"), None);
    }
}
