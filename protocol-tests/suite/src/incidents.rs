//! What went wrong for others: `incidents.toml`, each with what shows here that it does not.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::outcome::{Failure, Shown};
use crate::table::Entry;

/// One incident.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// A short name.
    pub id: String,
    /// What was seen.
    pub seen: String,
    /// Who reported it.
    pub sources: String,
    /// Ids of rows, and tests as `file::name`.
    #[serde(default)]
    pub shown: Vec<String>,
    /// The capability that is still to be built.
    pub awaits: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    incident: Vec<Incident>,
}

/// All of them.
///
/// # Errors
/// The file is malformed; the text says where.
pub fn all() -> Result<Vec<Incident>, Failure> {
    let File { incident } = toml::from_str(include_str!("../../incidents.toml"))?;
    Ok(incident)
}

impl Incident {
    /// Whether everything that it names exists under `workspace`, and names anything at all unless it awaits something.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, rows: &[Entry], workspace: &Path) -> Shown {
        if self.shown.is_empty() && self.awaits.is_none() {
            return Err(Failure::wrong(format!("{}: nothing shows it", self.id)));
        }
        self.shown.iter().try_for_each(|name| match name.split_once("::") {
            Some((file, test)) => has_test(workspace, file, test),
            None if rows.iter().any(|row| row.id == *name) => Ok(()),
            None => Err(Failure::wrong(format!("{}: there is no row {name}", self.id))),
        })
    }
}

fn has_test(workspace: &Path, file: &str, test: &str) -> Shown {
    let path = workspace.join(file);
    let text = fs::read_to_string(&path).map_err(|e| Failure::wrong(format!("{}: {e}", path.display())))?;
    let declared = format!("fn {test}(");
    if text.lines().any(|line| line.trim_start().trim_start_matches("async ").starts_with(&declared)) {
        return Ok(());
    }
    Err(Failure::wrong(format!("{file} has no test {test}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_incidents_name_exists() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let rows = crate::table::entries().unwrap();
        let (incidents, mut ids) = (all().unwrap(), std::collections::BTreeSet::new());
        for incident in &incidents {
            incident.check(&rows, &workspace).unwrap();
            assert!(ids.insert(&incident.id), "{} twice", incident.id);
        }
    }

    #[test]
    fn what_does_not_exist_is_told() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
        let incident = |shown: &[&str]| Incident {
            id: "x".into(),
            seen: String::new(),
            sources: String::new(),
            shown: shown.iter().map(|s| (*s).to_owned()).collect(),
            awaits: None,
        };
        for wrong in [&[][..], &["Z99"], &["src/incidents.rs::no_such_test"], &["nowhere.rs::x"]] {
            assert!(incident(wrong).check(&[], workspace).is_err(), "{wrong:?}");
        }
        incident(&["src/incidents.rs::what_does_not_exist_is_told"]).check(&[], workspace).unwrap();
    }
}
