//! Keeps what passes between clients and brokers, as seeds for fuzzers: a proxy, whose address it prints, until standard input
//! closes.
//!
//! ```text
//! DIR/request/KEY-VERSION-HASH    a request without its length
//! DIR/response/KEY-VERSION-HASH   the API's key and its version, a byte each, and a response without its length
//! ```
//! Of each API, version and way it keeps a few of different lengths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use kafka_2pc_protocol_tests::kafka::{Detour, Way};

/// How many frames of one kind are kept; of Produce and Fetch more, for the records in them.
const MOST: usize = 4;
const MOST_WITH_RECORDS: usize = 40;
const LARGEST: usize = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, folder] = arguments.as_slice() else {
        eprintln!("usage: record-frames BOOTSTRAP DIR");
        return ExitCode::from(2);
    };
    match record(bootstrap, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record-frames: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record(bootstrap: &str, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for way in [Way::Request, Way::Response] {
        fs::create_dir_all(folder.join(name(way)))?;
    }
    let kept = Mutex::new(Kept { folder: folder.to_owned(), ..Kept::default() });
    let watcher = move |connection, way, frame: &[u8]| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).see(connection, way, frame);
    };
    let detour = Detour::watched(bootstrap, Arc::new(watcher))?;
    println!("{}", detour.bootstrap());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Request => "request",
        Way::Response => "response",
    }
}

#[derive(Debug, Default)]
struct Kept {
    folder: PathBuf,
    /// Key and version by connection and correlation id.
    asked: BTreeMap<(u64, [u8; 4]), (i16, i16)>,
    lengths: BTreeMap<(Way, i16, i16), BTreeSet<usize>>,
}

impl Kept {
    fn see(&mut self, connection: u64, way: Way, frame: &[u8]) {
        match (way, frame) {
            (Way::Request, [k, ey, v, ersion, a, b, c, d, ..]) => {
                let kind = (i16::from_be_bytes([*k, *ey]), i16::from_be_bytes([*v, *ersion]));
                self.asked.insert((connection, [*a, *b, *c, *d]), kind);
                self.keep(way, kind, frame.to_vec());
            }
            (Way::Response, [a, b, c, d, ..]) => {
                let Some(kind) = self.asked.remove(&(connection, [*a, *b, *c, *d])) else { return };
                let (Ok(key), Ok(version)) = (u8::try_from(kind.0), u8::try_from(kind.1)) else { return };
                self.keep(way, kind, [&[key, version], frame].concat());
            }
            _ => {}
        }
    }

    fn keep(&mut self, way: Way, (key, version): (i16, i16), bytes: Vec<u8>) {
        let lengths = self.lengths.entry((way, key, version)).or_default();
        let most = if key < 2 { MOST_WITH_RECORDS } else { MOST };
        if bytes.len() > LARGEST || lengths.len() >= most || !lengths.insert(bytes.len()) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let file = format!("{key:03}-{version:02}-{:016x}", hasher.finish());
        if let Err(error) = fs::write(self.folder.join(name(way)).join(&file), bytes) {
            eprintln!("{file}: {error}");
        }
    }
}
