//! What a setting is: its name, what it changes, and which commands take it.

use super::{
    Command, JobConfig,
    text::{distance, word},
};
use crate::cli::Usage;

/// Carries a value out.
pub(super) type Apply = fn(&mut JobConfig, &str) -> Result<(), String>;

/// A setting. The table of these is also the one in the documents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Property {
    pub(super) name: &'static str,
    /// Other names of the same, older or longer ones.
    pub(super) also: &'static [&'static str],
    pub(super) owner: Owner,
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
    pub(super) pipe: On,
    pub(super) mirror: On,
    pub(super) apply: Apply,
}

/// Whose name it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Kafka,
    Flink,
    Ours,
}

/// What a command does with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum On {
    Takes,
    /// Only these values, because it does so anyway; the reason.
    Only(&'static [&'static str], &'static str),
    /// No value; the reason.
    Refuses(&'static str),
}

impl Property {
    /// A setting that every job takes.
    pub(super) const fn new(
        owner: Owner,
        name: &'static str,
        (default, meaning): (&'static str, &'static str),
        apply: Apply,
    ) -> Self {
        Self { name, also: &[], owner, default, meaning, pipe: On::Takes, mirror: On::Takes, apply }
    }

    pub(super) const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    pub(super) const fn pipe(self, pipe: On) -> Self {
        Self { pipe, ..self }
    }

    pub(super) const fn mirror(self, mirror: On) -> Self {
        Self { mirror, ..self }
    }

    pub(super) fn on(&self, command: Command) -> On {
        match command {
            Command::Pipe => self.pipe,
            Command::Mirror => self.mirror,
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.also.iter().copied())
    }
}

/// Carries out nothing: there is only one value, which is so anyway.
pub(super) fn as_it_is(_: &mut JobConfig, _: &str) -> Result<(), String> {
    Ok(())
}

/// All settings.
pub(super) fn all() -> impl Iterator<Item = &'static Property> {
    super::kafka::PROPERTIES.iter().chain(super::flink::PROPERTIES)
}

/// Names that Kafka and Flink have and this program has not, with the reason. One that ends with a dot means all that
/// begin with it.
pub(super) fn unsupported() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    super::kafka::UNSUPPORTED.iter().chain(super::flink::UNSUPPORTED)
}

/// In Flink's SQL, Kafka's settings stand behind this.
const PREFIX: &str = "properties.";

/// The setting of this name.
pub(super) fn find(name: &str) -> Option<&'static Property> {
    let named = |name: &str| all().find(|property| property.names().any(|known| known == name));
    match name.strip_prefix(PREFIX) {
        Some(kafkas) => named(kafkas).filter(|property| property.owner == Owner::Kafka),
        None => named(name),
    }
}

/// Carries out one setting.
///
/// # Errors
/// It is unknown, or the command does not take it, or its value makes no sense.
pub(super) fn set(config: &mut JobConfig, command: Command, name: &str, value: &str) -> Result<(), Usage> {
    let wrong = |why: String| Usage(format!("{name}={value}: {why}"));
    let Some(property) = find(name) else { return Err(unknown(name)) };
    let command_name = command.name();
    match property.on(command) {
        On::Takes => {}
        On::Only(values, _) if values.iter().any(|only| word(only) == word(value)) => {}
        On::Only(values, why) => {
            let values = values.join(" or ");
            return Err(wrong(format!("{command_name} takes only {values}: {why}")));
        }
        On::Refuses(why) => return Err(Usage(format!("{name} is not for {command_name}: {why}"))),
    }
    (property.apply)(config, value).map_err(wrong)
}

fn unknown(name: &str) -> Usage {
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let matches = |known: &str| bare == known || (known.ends_with('.') && bare.starts_with(known));
    if let Some((_, why)) = unsupported().find(|(known, _)| matches(known)) {
        return Usage(format!("{name} is not supported: {why}"));
    }
    let nearest = |property: &Property| property.names().map(|known| distance(known, bare)).min();
    match all().min_by_key(|property| nearest(property)) {
        Some(Property { name: known, meaning, default, .. }) => {
            let default = if default.is_empty() { String::new() } else { format!("; default {default}") };
            Usage(format!(
                "{name} is no setting of this program; the nearest one is {known} ({meaning}{default})"
            ))
        }
        None => Usage(format!("{name} is no setting of this program")),
    }
}
