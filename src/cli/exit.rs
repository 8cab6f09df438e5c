//! How the program ends.

use std::{io, process::ExitCode};

/// What a script may know from the exit code alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// 0.
    Done,
    /// 1: an error, or not decided yet, or denied.
    Failed,
    /// 2: the arguments make no sense.
    Usage,
    /// 3: records are lost, or doubled.
    Lost,
    /// 4: nothing proves whether records are lost.
    Undecidable,
}

/// An argument that makes no sense, which only shows when the command runs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Lost => 3,
            Self::Undecidable => 4,
        }
    }

    /// The worse of two ends: a loss before a doubt, a doubt before an error, an error before success.
    #[must_use]
    pub(super) fn worst(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Undecidable => 3,
            Self::Lost => 4,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Tells an error, and how the program ends with it.
pub(super) fn report(error: &anyhow::Error) -> Exit {
    // Whoever reads our output has seen enough.
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(closed) {
        return Exit::Done;
    }
    super::context::tell(format!("kafka-2pc: {}", story(error)));
    if error.is::<Usage>() { Exit::Usage } else { Exit::Failed }
}

/// The error with its causes, each once: many errors tell their cause themselves.
fn story(error: &anyhow::Error) -> String {
    let mut story = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !story.contains(&cause) {
            story.push_str(": ");
            story.push_str(&cause);
        }
    }
    story
}

#[cfg(test)]
mod tests {
    use super::Exit::{Done, Failed, Lost, Undecidable};

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("no room");
        let told = anyhow::Error::new(cause()).context("a file: no room").context("the state");
        assert_eq!(super::story(&told), "the state: a file: no room");
        assert_eq!(super::story(&anyhow::Error::new(cause()).context("a file")), "a file: no room");
    }

    #[test]
    fn a_loss_is_worse_than_a_doubt_and_a_doubt_worse_than_an_error() {
        let all = [Done, Failed, Undecidable, Lost];
        for (i, a) in all.into_iter().enumerate() {
            for (j, b) in all.into_iter().enumerate() {
                assert_eq!(a.worst(b), all[i.max(j)]);
            }
        }
        assert_eq!(all.map(super::Exit::code), [0, 1, 4, 3]);
    }
}
