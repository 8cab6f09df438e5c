//! Reads what the writer's processes append to their journal, while they do.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

/// Something that a writer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A recovery is done.
    Recovered {
        /// So many transactions were committed.
        resumed: u64,
        /// So many were aborted.
        aborted: u64,
    },
    /// The checkpoint of this number is durable.
    Checkpoint(u64),
    /// A prepare took so long.
    Prepare(Duration),
    /// A commit took so long.
    Commit(Duration),
}

/// A journal, read up to a place.
pub(super) struct Journal {
    path: PathBuf,
    read_bytes: u64,
}

impl Journal {
    /// A journal that may not be there yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read_bytes: 0 }
    }

    /// What was appended since the last call. A line that is not complete yet comes with the next one.
    ///
    /// # Errors
    /// The file can't be read.
    pub(super) fn news(&mut self) -> io::Result<Vec<Entry>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        self.read_bytes += text.len() as u64;
        Ok(String::from_utf8_lossy(&text).lines().filter_map(entry).collect())
    }
}

/// `TIME PROCESS WHAT NUMBER [NUMBER]`.
fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split_whitespace().skip(2);
    let what = words.next()?;
    let mut number = || words.next()?.parse().ok();
    Some(match what {
        "recovered" => Entry::Recovered { resumed: number()?, aborted: number()? },
        "checkpoint" => Entry::Checkpoint(number()?),
        "prepare" => Entry::Prepare(Duration::from_micros(number()?)),
        "commit" => Entry::Commit(Duration::from_micros(number()?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn news_are_told_once_and_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut journal = Journal::new(file.path().to_owned());
        assert_eq!(journal.news().unwrap(), []);
        file.write_all(b"1700000000000 7 recovered 2 1\n1700000000001 7 prep").unwrap();
        assert_eq!(journal.news().unwrap(), [Entry::Recovered { resumed: 2, aborted: 1 }]);
        file.write_all(b"are 1500\n1700000000002 7 commit 900\n1700000000003 7 checkpoint 4\n").unwrap();
        let (prepare, commit) = (Duration::from_micros(1500), Duration::from_micros(900));
        let news = [Entry::Prepare(prepare), Entry::Commit(commit), Entry::Checkpoint(4)];
        assert_eq!(journal.news().unwrap(), news);
        assert_eq!(journal.news().unwrap(), []);
    }

    #[test]
    fn a_journal_that_nobody_began_is_empty() {
        assert_eq!(Journal::new("/nowhere/at/all".into()).news().unwrap(), []);
    }

    #[test]
    fn words_of_other_versions_are_passed_over() {
        assert_eq!(entry("1700000000000 7 invented 1"), None);
        assert_eq!(entry("1700000000000 7 checkpoint many"), None);
    }
}
