//! Tells people what happens, and shows how far it is.

use std::{
    env,
    io::{self, IsTerminal},
};

use clap::builder::styling::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    cli::{Context, context::tell},
    ids::Moment,
    net::Clock,
};

/// Where the story is told: standard error.
#[derive(Clone)]
pub(super) struct Stage {
    tells: bool,
    colors: bool,
    bar: Option<ProgressBar>,
    clock: Clock,
    began: Moment,
}

/// How an event is to be felt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mood {
    /// Something breaks.
    Bad,
    /// Something is mended, or done.
    Good,
    /// Something goes on.
    Plain,
}

impl Mood {
    fn style(self) -> Style {
        match self {
            Self::Bad => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
            Self::Good => Style::new().fg_color(Some(AnsiColor::Green.into())).bold(),
            Self::Plain => Style::new().bold(),
        }
    }

    /// The text in this mood's colour, if colours are wanted there.
    pub(super) fn paint(self, text: &str, colors: bool) -> String {
        let style = self.style();
        if colors { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Whether a stream shows colours.
pub(super) fn has_colors(stream: &impl IsTerminal) -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}

impl Stage {
    pub(super) fn new(context: &Context) -> Self {
        let clock = Clock::start();
        let colors = has_colors(&io::stderr());
        Self { tells: context.tells(), colors, bar: None, clock, began: clock.now() }
    }

    /// A line of the story.
    pub(super) fn say(&self, line: impl AsRef<str>) {
        match &self.bar {
            _ if !self.tells => {}
            Some(bar) => bar.println(line),
            None => tell(line),
        }
    }

    /// Time is told from now on.
    pub(super) fn begin(&mut self) {
        self.began = self.clock.now();
    }

    /// Something happens now.
    pub(super) fn event(&self, mood: Mood, word: &str, text: impl AsRef<str>) {
        let seconds = self.seconds();
        let word = mood.paint(&format!("{word:<9}"), self.colors);
        self.say(format!("{seconds:5.1} s  {word} {}", text.as_ref()));
    }

    /// Seconds since the beginning.
    pub(super) fn seconds(&self) -> f64 {
        self.clock.now().since(self.began).as_secs_f64()
    }

    /// Draws a bar of so many records from now on, if somebody looks.
    pub(super) fn draw(&mut self, context: &Context, records: u64) {
        if !context.shows_progress() {
            return;
        }
        let bar = ProgressBar::new(records);
        let template = "         {bar:40.green} {human_pos} of {human_len} records visible";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━━╌"));
        }
        self.bar = Some(bar);
    }

    /// So many records are visible.
    pub(super) fn progress(&self, records: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(records.min(bar.length().unwrap_or(records)));
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
