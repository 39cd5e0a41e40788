//! A password that a program prints, asked for at each connect.

use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// More than this is no password, and a program that prints for ever must not fill the memory.
const LONGEST: u64 = 64 * 1024;

/// A program that prints the password of a node, and its arguments.
///
/// The arguments may be secrets themselves, so neither `Debug` nor an error shows them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordCommand {
    program: String,
    arguments: Vec<String>,
}

impl PasswordCommand {
    /// The program and its arguments; `Err` says what is wrong with them.
    #[cfg(feature = "config")]
    pub(crate) fn new(words: Vec<String>) -> Result<Self, &'static str> {
        let zero = words.iter().any(|word| word.contains('\0'));
        let mut words = words.into_iter();
        match words.next() {
            None => Err("is an empty list: name the program, then its arguments"),
            Some(program) if program.trim().is_empty() => {
                Err("begins with an empty text: name the program there")
            }
            Some(_) if zero => Err("has a zero byte in it, which no program can be given"),
            Some(program) => Ok(Self {
                program,
                arguments: words.collect(),
            }),
        }
    }

    /// Runs the program, without a shell, and answers what it printed, without one line break at
    /// the end. What it prints to its standard error is dropped, since nobody knows what that holds.
    ///
    /// A program that takes longer than `patience` is ended.
    ///
    /// # Errors
    ///
    /// A text that names the program, and shows neither its arguments nor its output.
    #[cfg_attr(
        not(any(feature = "r2d2", feature = "bb8", test)),
        expect(dead_code, reason = "only a driver connects")
    )]
    pub(crate) fn run(&self, patience: Duration) -> Result<String, String> {
        let failed = |what: &str| format!("the password command `{}` {what}", self.shown());
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            // The kind alone: the whole error is the system's, but its words are not ours to vouch for.
            .map_err(|error| failed(&format!("cannot be started: {}", error.kind())))?;
        let stdout = child.stdout.take();
        let child = Mutex::new(child);
        let locked = || child.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + patience;
        let mut printed = Vec::new();
        let (read, late) = std::thread::scope(|scope| {
            // Reading has no clock, so somebody else looks at one; whoever is late is ended.
            let (done, ended) = mpsc::channel::<()>();
            let watch = scope.spawn(move || {
                let late = ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
                if late {
                    let _ = locked().kill();
                }
                late
            });
            let read = match stdout {
                Some(stdout) => stdout.take(LONGEST + 1).read_to_end(&mut printed),
                None => Ok(0),
            };
            drop(done);
            (read, watch.join().unwrap_or(false))
        });
        if late || read.is_err() || printed.len() as u64 > LONGEST {
            // It may have ended by itself in the meantime, and is waited for in either case.
            let _ = locked().kill();
            let _ = locked().wait();
            return Err(failed(match read {
                _ if late => "was ended, since it did not answer within connect_timeout",
                Ok(_) => "prints more than 64 KiB, which is no password",
                Err(_) => "could not be read from",
            }));
        }
        let status = loop {
            match locked().try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => {}
                Ok(None) => {
                    let _ = locked().kill();
                    let _ = locked().wait();
                    return Err(failed(
                        "was ended, since it did not end within connect_timeout",
                    ));
                }
                Err(error) => return Err(failed(&format!("was lost: {}", error.kind()))),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if !status.success() {
            return Err(failed(&format!(
                "failed ({status}): run it by hand to see what it says"
            )));
        }
        let text = String::from_utf8(printed).map_err(|_| failed("printed no UTF-8"))?;
        let password = text.strip_suffix('\n').map_or(text.as_str(), |line| {
            line.strip_suffix('\r').unwrap_or(line)
        });
        if password.is_empty() {
            return Err(failed("printed nothing: it has to print the password"));
        }
        Ok(password.to_owned())
    }

    /// The program as it may be shown. Somebody who takes the text for a shell's line has written
    /// arguments, or variables, into it.
    fn shown(&self) -> &str {
        let end = self.program.find(|c: char| c.is_whitespace() || c == '=');
        &self.program[..end.unwrap_or(self.program.len())]
    }
}

impl fmt::Debug for PasswordCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordCommand")
            .field("program", &self.shown())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> PasswordCommand {
        PasswordCommand {
            program: words[0].to_owned(),
            arguments: words[1..].iter().map(|&word| word.to_owned()).collect(),
        }
    }

    #[test]
    fn one_line_break_at_the_end_is_the_programs() {
        for (format, password) in [
            ("S3cr3t!x", "S3cr3t!x"),
            ("S3cr3t!x\\n", "S3cr3t!x"),
            ("S3cr3t!x\\r\\n", "S3cr3t!x"),
            ("S3cr3t!x\\n\\n", "S3cr3t!x\n"),
            ("S3cr3t!x\\r", "S3cr3t!x\r"),
            (" pä\\nss ", " pä\nss "),
        ] {
            let answer = command(&["printf", format]).run(Duration::from_secs(10));
            assert_eq!(answer.as_deref(), Ok(password), "{format}");
        }
    }

    #[test]
    fn nothing_is_split_or_expanded() {
        for argument in ["a b", "$HOME", "*", "`false`", "a;b", "~", "'a'"] {
            let answer = command(&["echo", argument]).run(Duration::from_secs(10));
            assert_eq!(answer.as_deref(), Ok(argument));
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let start = Instant::now();
        let error = command(&["sleep", "60"]).run(Duration::from_millis(50));
        assert!(error.unwrap_err().contains("was ended"));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_program_gets_no_input() {
        // It would wait for ever for a terminal's.
        let error = command(&["cat"]).run(Duration::from_secs(10)).unwrap_err();
        assert!(error.contains("printed nothing"), "{error}");
    }

    #[test]
    fn a_failure_names_the_program_alone() {
        for (words, expected) in [
            (
                &["false", "S3cr3t"][..],
                "the password command `false` failed (exit status: 1): run it by hand to see what it says",
            ),
            (&["ls", "--S3cr3t"], "the password command `ls` failed"),
            (
                &["no-such-program", "S3cr3t"],
                "the password command `no-such-program` cannot be started: entity not found",
            ),
            (
                &["echo S3cr3t", "S3cr3t"],
                "the password command `echo` cannot be started",
            ),
            (
                &["TOKEN=S3cr3t vault"],
                "the password command `TOKEN` cannot be started",
            ),
            (&["printf", ""], "printed nothing"),
            (&["printf", "\\n"], "printed nothing"),
            (&["printf", "S3cr3t\\377"], "printed no UTF-8"),
            (&["yes", "S3cr3t"], "prints more than 64 KiB"),
        ] {
            let command = command(words);
            let error = command.run(Duration::from_secs(10)).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
            let shown = format!("{error} {command:?} {command:#?}");
            assert!(!shown.contains("S3cr3t"), "{shown}");
        }
    }
}
