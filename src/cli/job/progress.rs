//! How far a job is, on a terminal.

use std::sync::Arc;

use crate::cli::context::Context;

/// Is told of records and bytes so far.
pub(in crate::cli) type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Draws a bar, or something that turns where the number of bytes is not known. Draws nothing where nobody looks.
pub(in crate::cli) fn progress(context: &Context, bytes: Option<u64>) -> Progress {
    if !context.shows_progress() {
        return Arc::new(|_, _| {});
    }
    let bar = match bytes {
        Some(bytes) => indicatif::ProgressBar::new(bytes),
        None => indicatif::ProgressBar::new_spinner(),
    };
    let template = if bytes.is_some() {
        "{bar:30} {bytes}/{total_bytes} {msg} {elapsed}"
    } else {
        "{spinner} {bytes} {msg} {elapsed}"
    };
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    Arc::new(move |records, bytes| {
        bar.set_position(bytes);
        bar.set_message(format!("{records} records"));
    })
}
