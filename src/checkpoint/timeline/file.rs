//! The file, which is bounded, and never in a job's way.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tokio::sync::mpsc;

use super::{
    line::{self, Key},
    times::{CheckpointTimes, Mark, gather},
    writer::Entry,
};
use crate::checkpoint::files::{TEMPORARY, options};

/// How many checkpoints are kept, at least; twice as many may lie in the file.
pub const KEPT_CHECKPOINTS: usize = 1_000;

const NAME: &str = "timeline.ndjson";

/// The newest checkpoints that the file in this directory tells of, the oldest first; none if there is no such file. Lines that
/// can't be read, as a crash leaves one, are passed over.
///
/// # Errors
/// The file can't be read.
pub fn read_timeline(dir: &Path) -> io::Result<Vec<CheckpointTimes>> {
    let mut all = match fs::read(dir.join(NAME)) {
        Ok(bytes) => gather(String::from_utf8_lossy(&bytes).lines().filter_map(line::read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    all.drain(..all.len().saturating_sub(KEPT_CHECKPOINTS));
    Ok(all)
}

/// Writes what comes until nobody is left to send it.
pub(super) async fn work(dir: PathBuf, mut queue: mpsc::Receiver<Entry>) {
    let mut log = Log { path: dir.join(NAME), ..Log::default() };
    let mut broken = false;
    while let Some(mut entry) = queue.recv().await {
        let mut closing = Vec::new();
        loop {
            match entry {
                Entry::Event(key, mark) if !broken => log.take(key, &mark),
                Entry::Event(..) => {}
                Entry::Close(done) => closing.push(done),
            }
            match queue.try_recv() {
                Ok(next) => entry = next,
                Err(_) => break,
            }
        }
        if let (false, Err(error)) = (broken, log.flush()) {
            tracing::warn!(path = %log.path.display(), %error, "no timeline is written");
            broken = true;
        }
        log.pending.clear();
        closing.into_iter().for_each(|done| _ = done.send(()));
    }
}

#[derive(Debug, Default)]
struct Log {
    path: PathBuf,
    file: Option<File>,
    pending: String,
    /// The checkpoints in the file, the oldest first.
    order: VecDeque<Key>,
    known: BTreeSet<Key>,
}

impl Log {
    fn take(&mut self, key: Key, mark: &Mark) {
        self.pending.push_str(&line::write(key, mark));
        self.know(key);
    }

    fn know(&mut self, key: Key) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.begin()?;
        }
        if self.order.len() > 2 * KEPT_CHECKPOINTS {
            self.shorten()?;
        }
        match &mut self.file {
            Some(file) => file.write_all(self.pending.as_bytes()),
            None => Ok(()),
        }
    }

    /// What a former run left is kept; a line that it left torn gets an end.
    fn begin(&mut self) -> io::Result<()> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let now = std::mem::take(&mut self.order);
        self.known.clear();
        text.lines().filter_map(line::read).for_each(|(key, _)| self.know(key));
        now.into_iter().for_each(|key| self.know(key));
        if !text.is_empty() && !text.ends_with('\n') {
            self.pending.insert(0, '\n');
        }
        self.file = Some(options().append(true).create(true).open(&self.path)?);
        Ok(())
    }

    /// Keeps the newest checkpoints only.
    fn shorten(&mut self) -> io::Result<()> {
        while self.order.len() > KEPT_CHECKPOINTS {
            if let Some(key) = self.order.pop_front() {
                self.known.remove(&key);
            }
        }
        let text = String::from_utf8_lossy(&fs::read(&self.path)?).into_owned();
        let kept: String = text
            .lines()
            .filter(|text| line::read(text).is_some_and(|(key, _)| self.known.contains(&key)))
            .flat_map(|line| [line, "\n"])
            .collect();
        let temporary = self.path.with_file_name(format!("{NAME}{TEMPORARY}"));
        let mut file = options().create(true).truncate(true).open(&temporary)?;
        file.write_all(kept.as_bytes())?;
        fs::rename(&temporary, &self.path)?;
        // It stands at its end.
        self.file = Some(file);
        Ok(())
    }
}
