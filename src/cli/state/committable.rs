//! One prepared transaction: a file, or an object.

use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;

use super::{Given, START, StatePlace, location, objects};
use crate::{
    checkpoint::{ObjectLocation, read_committable, read_newest},
    proto::committable::Committable,
};

/// Where a prepared transaction lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum CommittablePlace {
    File(PathBuf),
    Object {
        /// The whole URL.
        url: String,
        state: ObjectLocation,
        name: String,
    },
}

/// The folder of a state that they lie in.
const FOLDER: &str = "committables";

impl CommittablePlace {
    /// For clap.
    pub(in crate::cli) fn parser() -> impl TypedValueParser<Value = Self> {
        Given(Self::parse)
    }

    pub(in crate::cli) fn parse(path: PathBuf) -> Result<Self, String> {
        let url = match path.to_str() {
            Some(url) if ObjectLocation::is_meant(url) => location(url)?,
            _ => return Ok(Self::File(path)),
        };
        let above = url.split_last().and_then(|(folder, name)| Some((folder.split_last()?, name)));
        match above {
            Some(((state, folder), name)) if folder == FOLDER => {
                Ok(Self::Object { url: url.to_string(), state, name })
            }
            _ => Err(format!(
                "{url} is no prepared transaction of a state: it is STATE/{FOLDER}/NAME.committable; for all of a state \
                 give --state URL"
            )),
        }
    }

    /// The file, or the URL, for messages.
    pub(in crate::cli) fn shown(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Object { url, .. } => PathBuf::from(url),
        }
    }

    /// What is there.
    ///
    /// # Errors
    /// It is not there, or can't be read.
    pub(in crate::cli) async fn read(&self) -> anyhow::Result<Committable> {
        match self {
            Self::File(path) => Ok(read_committable(path)?),
            Self::Object { url, state, name } => {
                let found = objects(state, START)?.committable(name).await?;
                found.ok_or_else(|| anyhow::anyhow!("{url}: there is no such object"))
            }
        }
    }

    /// Whether the newest checkpoint of the state that it lies in lists it; `None` outside of a state.
    ///
    /// # Errors
    /// The state can't be read.
    pub(in crate::cli) async fn is_listed(&self, committable: &Committable) -> anyhow::Result<Option<bool>> {
        let newest = match self {
            Self::File(path) => match state_of(path)? {
                Some(dir) => read_newest(&dir)?,
                None => return Ok(None),
            },
            Self::Object { state, .. } => {
                let look = StatePlace::Objects(state.clone()).look().await?;
                look.newest().await?
            }
        };
        let listed = |checkpoint: &crate::checkpoint::Checkpoint| {
            checkpoint.committables.iter().any(|listed| listed.committable.identity == committable.identity)
        };
        Ok(Some(newest.as_ref().is_some_and(listed)))
    }
}

/// `DIR/committables/FILE` belongs to the state in DIR, if there is one.
fn state_of(file: &Path) -> std::io::Result<Option<PathBuf>> {
    let file = std::path::absolute(file)?;
    let inside = file.parent().filter(|parent| parent.ends_with(FOLDER));
    let dir = inside.and_then(Path::parent).filter(|dir| dir.join("lock").exists());
    Ok(dir.map(Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_belongs_to_its_state() {
        let found = CommittablePlace::parse("file:///x/state/committables/a.committable".into()).unwrap();
        let CommittablePlace::Object { url, state, name } = &found else { panic!("{found:?}") };
        assert_eq!(url, "file:///x/state/committables/a.committable");
        assert_eq!((state.to_string().as_str(), name.as_str()), ("file:///x/state", "a.committable"));
        assert_eq!(found.shown().to_str(), Some(url.as_str()));
        let state = CommittablePlace::parse("file:///x/state".into()).unwrap_err();
        assert!(state.contains("give --state URL"), "{state}");
        assert_eq!(CommittablePlace::parse("a".into()), Ok(CommittablePlace::File("a".into())));
    }
}
