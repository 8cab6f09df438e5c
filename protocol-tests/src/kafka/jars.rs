//! Kafka's jars, fetched by Maven once per version and kept in the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::KafkaError;
use crate::cache::{self, FileLock};

const POM: &str = include_str!("../../kafka/pom.xml");
const DEPENDENCY_PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Which jars of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JarSet {
    /// What a node needs: some 45 jars, 43 MB.
    Server,
    /// The server's and those of `org.apache.kafka.tools`: some 92 jars.
    Tools,
}

/// A folder of jars that is complete.
#[derive(Debug, Clone)]
pub struct Jars {
    folder: PathBuf,
}

impl Jars {
    /// The jars of `version`: from the cache, else fetched. Processes that want the same at once wait for the first.
    ///
    /// # Errors
    /// Java or Maven is missing, or Maven can not reach its repository.
    pub fn ensure(version: &str, set: JarSet) -> Result<Self, KafkaError> {
        require_java(version)?;
        let name = match set {
            JarSet::Server => format!("kafka-{version}"),
            JarSet::Tools => format!("kafka-tools-{version}"),
        };
        let folder = cache::folder().join(&name);
        if complete(&folder) {
            return Ok(Self { folder });
        }
        let lock = cache::folder().join(format!("{name}.lock"));
        let _lock = FileLock::wait(&lock).map_err(KafkaError::io(format!("lock {}", lock.display())))?;
        if !complete(&folder) {
            fetch(version, set, &folder)?;
        }
        Ok(Self { folder })
    }

    /// What `java -cp` wants.
    pub(crate) fn classpath(&self) -> String {
        format!("{}/*", self.folder.display())
    }

    /// Where the jars are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn complete(folder: &Path) -> bool {
    folder.join(".complete").is_file()
}

/// Fetches into a folder of its own and renames it when all is there: a half-fetched one is never taken for complete.
fn fetch(version: &str, set: JarSet, folder: &Path) -> Result<(), KafkaError> {
    let partial = tempfile::Builder::new()
        .prefix("fetching-")
        .tempdir_in(cache::folder())
        .map_err(KafkaError::io("create a folder in the cache"))?;
    let pom = partial.path().join("pom.xml");
    std::fs::write(&pom, POM).map_err(KafkaError::io("write pom.xml"))?;
    let jars = partial.path().join("jars");

    maven(version, set, &pom, &jars)?;
    std::fs::write(jars.join(".complete"), version).map_err(KafkaError::io("mark the jars complete"))?;
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(KafkaError::io("remove incomplete jars"))?;
    }
    std::fs::rename(&jars, folder).map_err(KafkaError::io("move the jars into place"))
}

fn maven(version: &str, set: JarSet, pom: &Path, jars: &Path) -> Result<(), KafkaError> {
    let logger = if version.starts_with("3.") { "reload4j" } else { "log4j2" };
    let profiles = match set {
        JarSet::Server => format!("-P{logger}"),
        JarSet::Tools => format!("-P{logger},tools"),
    };
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "-Dstyle.color=never", "--file"])
        .arg(pom)
        .args([&profiles, &format!("-Dkafka.version={version}"), DEPENDENCY_PLUGIN, "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|_| KafkaError::MavenMissing { kafka: version.into() })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let end: Vec<_> = said.lines().take(8).collect();
    Err(KafkaError::FetchFailed { kafka: version.into(), output: end.join("\n") })
}

/// The `java` program: that of `JAVA_HOME`, else the path's.
pub(crate) fn java() -> PathBuf {
    match std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join("bin/java"),
        None => PathBuf::from("java"),
    }
}

fn require_java(kafka: &str) -> Result<(), KafkaError> {
    let program = java();
    let output = Command::new(&program)
        .arg("-version")
        .output()
        .map_err(|source| KafkaError::JavaMissing { program: program.display().to_string(), source })?;
    let needed = if kafka.starts_with("3.") { 11 } else { 17 };
    // An answer that can not be read is no reason to refuse: Kafka itself will say what it lacks.
    match major(&String::from_utf8_lossy(&output.stderr)) {
        Some(found) if found < needed => Err(KafkaError::JavaTooOld { found, needed, kafka: kafka.into() }),
        _ => Ok(()),
    }
}

/// The major version in what `java -version` prints: `"17.0.15"` is 17, `"1.8.0_392"` is 8.
fn major(version: &str) -> Option<u32> {
    let quoted = version.split('"').nth(1)?;
    let mut numbers = quoted.split(['.', '-', '_']).map(str::parse);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_are_read() {
        assert_eq!(major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(major("java version \"1.8.0_392\""), Some(8));
        assert_eq!(major("openjdk version \"25-ea\""), Some(25));
        assert_eq!(major("no version"), None);
    }

    #[test]
    fn a_folder_without_its_marker_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kafka.jar"), "half").unwrap();
        assert!(!complete(folder.path()));
    }
}
