//! Child processes that can not outlive us.
//!
//! A shell, the watchdog, reads orders from a pipe of which we hold the only writing end. When this process ends, by whatever
//! death, the kernel closes the pipe, and the watchdog kills what is still on its list. A child waits at a gate of its own until the
//! watchdog knows its process id, so there is no moment in which it could be missed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const WATCHDOG: &str = r#"
trap '' INT TERM HUP
pids= folder=
while read -r order what; do
  case $order in
    kill) pids="$pids $what" ;;
    spare) rest=; for p in $pids; do [ "$p" = "$what" ] || rest="$rest $p"; done; pids=$rest ;;
    folder) folder=$what ;;
  esac
done
for p in $pids; do kill -KILL "$p" 2>/dev/null; done
for p in $pids; do n=0; while kill -0 "$p" 2>/dev/null && [ $n -lt 20 ]; do n=$((n+1)); sleep 0.1; done; done
[ -z "$folder" ] || rm -rf "$folder"
"#;

/// The shell that kills our children when we die.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    orders: Mutex<Option<ChildStdin>>,
}

impl Watchdog {
    /// Starts it. It also removes `folder` at the end, if one is given.
    pub(crate) fn start(folder: Option<&Path>) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", WATCHDOG])
            // A group of its own: Ctrl-C in a terminal reaches us, and the watchdog acts on our death.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = Mutex::new(shell.stdin.take());
        let watchdog = Self { shell, orders };
        if let Some(folder) = folder {
            watchdog.order("folder", &folder.display())?;
        }
        Ok(watchdog)
    }

    /// Starts `program` under guard, its output appended to `log`.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        program: &Path,
        arguments: &[String],
        log: File,
    ) -> io::Result<Guarded> {
        self.spawn_split(program, arguments, log.try_clone()?, log)
    }

    /// The same with standard output and standard error apart.
    pub(crate) fn spawn_split(
        self: &Arc<Self>,
        program: &Path,
        arguments: &[String],
        stdout: File,
        stderr: File,
    ) -> io::Result<Guarded> {
        let mut child = Command::new("sh")
            .args(["-c", r#"read -r go && exec "$@""#, "gate"])
            .arg(program)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        let gate = child.stdin.take();
        let mut guarded = Guarded { watchdog: Arc::clone(self), child, stdin: gate };
        self.order("kill", &guarded.child.id())?;
        guarded.tell("go")?;
        Ok(guarded)
    }

    fn order(&self, order: &str, what: &dyn std::fmt::Display) -> io::Result<()> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        match orders.as_mut() {
            Some(pipe) => writeln!(pipe, "{order} {what}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // It ends by itself once its pipe is closed; waiting only keeps a zombie from staying.
        let _ = self.shell.wait();
    }
}

/// A child on the watchdog's list; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Guarded {
    watchdog: Arc<Watchdog>,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Guarded {
    /// A line on its standard input, which stays open as long as this handle.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        match self.stdin.as_mut() {
            Some(stdin) => writeln!(stdin, "{line}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end, at most this long.
    pub(crate) fn exit_within(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            let exit = self.exit()?;
            if exit.is_some() || Instant::now() >= deadline {
                return Ok(exit);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL, and returns when the process is gone.
    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.end()
    }

    /// SIGSTOP: the process keeps its ports and connections and does nothing.
    pub(crate) fn pause(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    /// SIGCONT.
    pub(crate) fn cont(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// The same, and the handle stays.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail only when there is nothing left to do: the child is gone, or the watchdog is.
        let _ = self.end();
        let _ = self.watchdog.order("spare", &self.child.id());
    }
}

/// What a program printed, and how it ended; no exit status: it was killed at its time limit.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Captured {
    /// An error's account of the end: `None` when it ended well.
    pub(crate) fn failure(&self, limit: Duration) -> Option<String> {
        match self.exit {
            Some(exit) if exit.success() => None,
            Some(exit) => Some(format!("failed ({exit})")),
            None => Some(format!("took more than {limit:?}")),
        }
    }
}

/// Runs a program to its end under guard. Output goes through files: a full pipe can not block it.
pub(crate) fn capture(
    watchdog: &Arc<Watchdog>,
    program: &Path,
    arguments: &[String],
    limit: Duration,
) -> io::Result<Captured> {
    let print = tempfile::tempdir()?;
    let [out, err] = ["out", "err"].map(|name| print.path().join(name));
    let mut child = watchdog.spawn_split(program, arguments, File::create(&out)?, File::create(&err)?)?;
    let exit = child.exit_within(limit)?;
    drop(child);
    let text = |path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Captured { exit, stdout: text(out)?, stderr: text(err)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(pid: u32) -> bool {
        Path::new("/proc").join(pid.to_string()).exists()
    }

    fn sleeper(watchdog: &Arc<Watchdog>) -> Guarded {
        let null = File::options().write(true).open("/dev/null").unwrap();
        watchdog.spawn(Path::new("sleep"), &["300".into()], null).unwrap()
    }

    #[test]
    fn a_child_dies_with_its_handle() {
        let watchdog = Arc::new(Watchdog::start(None).unwrap());
        let child = sleeper(&watchdog);
        let pid = child.child.id();
        assert!(exists(pid));
        drop(child);
        assert!(!exists(pid));
    }

    #[test]
    fn a_closed_pipe_kills_what_is_left_and_removes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("data");
        std::fs::create_dir(&inner).unwrap();
        let watchdog = Arc::new(Watchdog::start(Some(&inner)).unwrap());
        let mut child = sleeper(&watchdog);
        *watchdog.orders.lock().unwrap() = None;
        let exit = child.exit_within(Duration::from_secs(10)).unwrap().expect("the watchdog kills it");
        assert!(!exit.success());
        let deadline = Instant::now() + Duration::from_secs(10);
        while inner.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!inner.exists());
    }
}
