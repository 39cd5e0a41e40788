//! A folder with a configuration and migrations, and the binary run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::assert_no_secret;

/// A folder of one test: configuration, migrations, SQLite files. Gone with it.
pub(crate) struct Stage {
    folder: TempDir,
}

/// What a finished process left.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// A folder with this `diesel-sharded.toml`.
    pub(crate) fn new(config: &str) -> Self {
        let stage = Self::empty();
        stage.write("diesel-sharded.toml", config);
        stage
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let parent = path.parent().expect("a file in a folder");
        std::fs::create_dir_all(parent).expect("a folder is made");
        std::fs::write(&path, text).expect("a file is written");
        path
    }

    /// Writes a migration below `migrations/`: `name` is its folder, `2024-01-01-000000_items`.
    pub(crate) fn migration(&self, name: &str, up: &str, down: &str) {
        self.write(&format!("migrations/{name}/up.sql"), up);
        self.write(&format!("migrations/{name}/down.sql"), down);
    }

    /// The binary with these arguments, in this folder, and with an environment that says nothing
    /// about a configuration.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diesel-sharded"));
        command
            .args(args)
            .current_dir(self.path())
            .env_remove("DIESEL_SHARDED_CONFIG")
            .env_remove("DIESEL_SHARDED_PROFILE")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end. No password of a test server may be in what it says.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }
}

impl Output {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the binary can be started"))
    }

    /// Fails unless the process ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The JSON objects of standard output, one per line; fails where a line is none.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                let event: Value = serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{error}: {line:?} in {self:#?}"));
                assert!(event["event"].is_string(), "no event: {line}");
                event
            })
            .collect()
    }

    /// The events of this name.
    #[track_caller]
    pub(crate) fn events_named(&self, name: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["event"] == name);
        events
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the binary prints UTF-8");
        let output = Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert_no_secret(&output.stdout);
        assert_no_secret(&output.stderr);
        output
    }
}

/// `[shards.NAME]` tables for shards behind these URLs.
pub(crate) fn shards<N: AsRef<str>>(urls: impl IntoIterator<Item = (N, String)>) -> String {
    urls.into_iter()
        .map(|(name, url)| format!("[shards.{}]\nurl = {url:?}\n", name.as_ref()))
        .collect()
}
