//! The tables in the documents are the tables of the program.

use super::{
    Command, JobConfig, Settings,
    table::{On, Owner, all, unsupported},
};
use crate::{client::ClientConfig, sink::SinkConfig};

fn cell(on: On) -> String {
    match on {
        On::Takes => "yes".to_owned(),
        On::Only(values, why) => format!("only {}: {why}", code(values)),
        On::Refuses(why) => format!("no: {why}"),
    }
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn tables() -> String {
    let mut text =
        "| name | whose | default | meaning | `pipe` | `mirror` |\n|---|---|---|---|---|---|\n".to_owned();
    for property in all() {
        let names = [&[property.name], property.also].concat();
        let owner = match property.owner {
            Owner::Kafka => "Kafka",
            Owner::Flink => "Flink",
            Owner::Ours => "ours",
        };
        let (default, meaning) = (property.default, property.meaning);
        let (pipe, mirror) = (cell(property.pipe), cell(property.mirror));
        text += &format!("| {} | {owner} | {default} | {meaning} | {pipe} | {mirror} |\n", code(&names));
    }
    text += "\nRefused everywhere, with the reason; a dot at the end stands for all names that begin so:\n\n| name | |\n|---|---|\n";
    for (name, why) in unsupported() {
        text += &format!("| `{name}` | {why} |\n");
    }
    text
}

#[test]
fn the_document_lists_every_setting_as_the_program_has_it() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md")).unwrap();
    let tables = tables();
    let missing: Vec<&str> = tables.lines().filter(|line| !page.lines().any(|l| l == *line)).collect();
    assert!(page.contains(&tables), "docs/cli.md, Properties, should be\n{tables}\nmissing: {missing:#?}");
}

#[test]
fn the_example_in_the_document_is_taken_by_every_command() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md")).unwrap();
    let example = page.split("```properties\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), example).unwrap();
    let settings = Settings::read(Some(file.path()), &[]).unwrap();
    for command in [Command::Pipe, Command::Mirror] {
        let mut config =
            JobConfig::new(ClientConfig::new("a:1").unwrap(), SinkConfig::new("unnamed").unwrap());
        settings.apply(&mut config, command).unwrap();
        config.complete().unwrap();
        config.sink.validate().unwrap();
        assert_eq!((config.run.checkpoints.interval.as_secs(), config.sink.batch_bytes), (30, 65_536));
        assert_eq!(config.prefix.as_deref(), Some("flights-copy"));
    }
    assert_eq!(settings.repeated(), [""; 0]);
}

#[test]
fn no_name_stands_for_two_settings() {
    let mut names: Vec<&str> = all().flat_map(|p| [&[p.name], p.also].concat()).collect();
    names.extend(unsupported().map(|(name, _)| *name));
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
