//! `kafka-2pc checkpoints`: looks at the checkpoints of a job, also while it runs, and changes nothing.

mod view;

use comfy_table::{Table, presets};
use serde_json::json;

use super::{Context, Exit, context::tell, state::StatePlace};
use crate::checkpoint::{CheckpointFile, Verified};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the checkpoints that are kept
    List(State),
    /// Show everything in a checkpoint
    Show(ShowArgs),
    /// Read everything in a state, and name what is not as it was written
    Verify(State),
}

#[derive(Debug, clap::Args)]
struct State {
    /// A job's state: its directory, or its URL
    #[arg(long, value_name = "DIR|URL", value_parser = StatePlace::parser())]
    state: StatePlace,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    state: State,
    /// Number of the checkpoint [default: the newest]
    #[arg(long, value_name = "N")]
    id: Option<u64>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(State { state }) => list(context, state.look().await?.checkpoints().await?),
        Command::Show(args) => show(context, &args.state.state, args.id).await,
        Command::Verify(State { state }) => check(context, &state.look().await?.verify().await?),
    }
}

fn list(context: &Context, files: Vec<CheckpointFile>) -> anyhow::Result<Exit> {
    if context.json() {
        files.iter().try_for_each(|file| context.print(view::line(file).to_string()))?;
    } else if files.is_empty() {
        context.say("no checkpoints");
    } else {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["CHECKPOINT", "TIME", "BYTES", "OWNER", "COMMITTABLES", "OPERATORS"]);
        for file in &files {
            table.add_row(view::row(file));
        }
        context.print(table.trim_fmt())?;
    }
    let mut faults = files.iter().filter_map(|file| file.checkpoint.as_ref().err()).peekable();
    let exit = if faults.peek().is_some() { Exit::Failed } else { Exit::Done };
    faults.for_each(|error| tell(format!("kafka-2pc: {error}")));
    Ok(exit)
}

async fn show(context: &Context, state: &StatePlace, id: Option<u64>) -> anyhow::Result<Exit> {
    let mut files = state.look().await?.checkpoints().await?;
    let found = match id {
        None => files.pop(),
        Some(id) => files.into_iter().find(|file| file.id == id),
    };
    let Some(CheckpointFile { id, path, bytes, modified, checkpoint }) = found else {
        let what = id.map_or_else(|| "no checkpoint".to_owned(), |id| format!("no checkpoint {id}"));
        anyhow::bail!("{state}: there is {what} here");
    };
    let file = CheckpointFile { id, path, bytes, modified, checkpoint: Ok(checkpoint?) };
    let object = view::whole(&file);
    match context.json() {
        true => context.print(object.to_string())?,
        false => context.print(serde_json::to_string_pretty(&object)?)?,
    }
    Ok(Exit::Done)
}

fn check(context: &Context, verified: &Verified) -> anyhow::Result<Exit> {
    for fault in &verified.faults {
        let file = fault.path.display().to_string();
        context.print(match context.json() {
            true => json!({"file": file, "fault": fault.why}).to_string(),
            false => format!("{file}: {}", fault.why),
        })?;
    }
    let counts = json!({
        "checkpoints": verified.checkpoints,
        "states": verified.states,
        "committables": verified.committables,
        "unnamed_states": verified.unnamed,
        "faults": verified.faults.len(),
    });
    context.print(match context.json() {
        true => counts.to_string(),
        false => format!(
            "{} checkpoints, {} states beside them, {} committables: {}",
            verified.checkpoints,
            verified.states,
            verified.committables,
            match verified.faults.len() {
                0 => "no faults".to_owned(),
                1 => "1 fault".to_owned(),
                faults => format!("{faults} faults"),
            }
        ),
    })?;
    Ok(if verified.faults.is_empty() { Exit::Done } else { Exit::Failed })
}
