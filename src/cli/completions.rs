//! `kafka-2pc completions`: the script that makes a shell complete our arguments.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell to print it for
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<Exit> {
    io::stdout().lock().write_all(&script::<C>(args.shell))?;
    Ok(Exit::Done)
}

fn script<C: CommandFactory>(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut C::command(), "kafka-2pc", &mut script);
    if shell == Shell::Bash { with_labels_that_agree(&script) } else { script }
}

/// In bash a label stands for each command. For a name with a dash clap_complete 4.6 writes another label where it is
/// set than where it is looked for, so that nothing behind a command would be completed.
fn with_labels_that_agree(script: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(script).replace("kafka__subcmd__2pc", "kafka__2pc").into_bytes()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn bash_finds_every_label_that_it_sets() {
        let script = String::from_utf8(script::<Cli>(Shell::Bash)).unwrap();
        let labels = script.lines().filter_map(|line| line.trim().strip_prefix("cmd=\"")?.strip_suffix('"'));
        let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
        assert!(labels.len() > Cli::command().get_subcommands().count());
        for label in labels {
            assert!(script.lines().any(|line| line.trim() == format!("{label})")), "{label}");
        }
    }

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script::<Cli>(*shell)).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
