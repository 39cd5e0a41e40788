//! Passwords that change while work goes on: by the file, by a command, by code.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use diesel_sharded::{Config, Error, UnavailableCause};
use tempfile::TempDir;

use super::backend::{Fleet, Manager, insert, open, whoami};
use super::refusals::User;
use crate::production_support::{as_user, changed, told};
use crate::support::eventually;

const OLD: &str = "0ld-S3cret!%@/";
const NEW: &str = "N3w-S3cret: #1";

fn assert_clean(text: &str) {
    for secret in [OLD, NEW, "0ld-S3cret", "N3w-S3cret"] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// Files of one test: the configuration, the password, a program that prints it.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        // Put in place in one step: a reader sees the old text or the new one.
        let (draft, path) = (self.path("draft"), self.path(name));
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }

    /// A shell script that notes its runs in `runs` and prints the file `password`.
    fn program(&self) -> [String; 2] {
        let script = format!(
            "echo run >> '{}'\ncat '{}'\n",
            self.path("runs").display(),
            self.path("password").display()
        );
        let path = self.write("program", &script);
        ["sh".to_owned(), path.display().to_string()]
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).map_or(0, |text| text.lines().count())
    }
}

/// A configuration of `b` alone, whose URL has no password.
fn config(files: &Files, user: &User<'_>, password: &str, more: &str) -> PathBuf {
    let url = changed(&user.url("x"), |url| url.set_password(None).unwrap());
    files.write(
        "shards.toml",
        &format!(
            "[pool]\nmax_size = 3\nconnection_timeout = \"20s\"\nconnect_timeout = \"2s\"\n{more}
             [shards.b]\nurl = {url:?}\npassword = {password}\n"
        ),
    )
}

fn load(path: &Path) -> Config {
    Config::from_file(path).unwrap()
}

fn whole(text: &str) -> String {
    format!("{text:?}")
}

#[test]
fn a_password_rotates_by_the_file_and_a_reload_without_a_failed_call() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, OLD, 0);
    let files = Files::new();
    let secret = files.write("secret", OLD);
    let from_file = format!("{{ file = {:?} }}", secret.display().to_string());
    let path = config(&files, &user, &from_file, "");
    let shards = Manager::from_config(&load(&path)).unwrap();
    let (done, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (shards, done, calls) = (&shards, &done, &calls);
                scope.spawn(move || {
                    let mut failures = Vec::new();
                    let mut id = worker;
                    while !done.load(Ordering::SeqCst) {
                        id += 3;
                        let result =
                            shards.transaction_on("b", |conn| Ok::<_, Error>(insert(conn, id)?));
                        if let Err(error) = result {
                            failures.push(told(&error, &[OLD, NEW]));
                        }
                        calls.fetch_add(1, Ordering::SeqCst);
                    }
                    failures
                })
            })
            .collect();
        let more_calls = || {
            let before = calls.load(Ordering::SeqCst);
            eventually("calls are made", || {
                calls.load(Ordering::SeqCst) > before + 30
            });
        };
        more_calls();
        eventually("all three connections are open", || {
            shards.status().nodes[0].connections == 3
        });
        for password in [NEW, OLD, NEW] {
            // First the server, which leaves sessions alone, then the file, then the word.
            user.change_password(password);
            files.write("secret", password);
            more_calls();
            let change = shards.reload(&load(&path)).unwrap();
            assert_clean(&format!("{change:?}"));
            assert_eq!(change.replaced.len(), 1);
            more_calls();
            assert!(change.drain(Duration::from_secs(5)).is_empty());
        }
        done.store(true, Ordering::SeqCst);
        for worker in workers {
            assert_eq!(worker.join().unwrap(), [""; 0]);
        }
    });
    println!("{} calls, none failed", calls.into_inner());
    drop(shards);
}

#[test]
fn a_password_that_is_wrong_in_the_new_file_changes_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, OLD, 0);
    let files = Files::new();
    let shards = Manager::from_config(&load(&config(&files, &user, &whole(OLD), ""))).unwrap();
    whoami(&mut shards.get_on("b").unwrap()).unwrap();
    let error = shards
        .reload(&load(&config(&files, &user, &whole(NEW), "")))
        .unwrap_err();
    let text = told(&error, &[OLD, NEW]);
    assert!(
        matches!(
            error,
            Error::Unavailable {
                cause: UnavailableCause::Authentication,
                ..
            }
        ),
        "{text}"
    );
    assert_eq!(shards.topology().epoch(), 1);
    assert_eq!(shards.status().nodes[0].down, None);
    for _ in 0..3 {
        let three = [(); 3].map(|()| shards.get_on("b").unwrap());
        drop(three);
    }
    drop(shards);
}

#[test]
fn a_password_command_is_run_at_each_connect_and_at_no_other_time() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, OLD, 0);
    let files = Files::new();
    files.write("password", &format!("{OLD}\n"));
    let command = format!("{{ command = {:?} }}", files.program());
    let path = config(&files, &user, &command, "");
    let config = load(&path);
    let shards = Manager::from_config(&config).unwrap();
    assert_eq!(files.runs(), 0, "neither loading nor building asks");
    for _ in 0..5 {
        whoami(&mut shards.get_on("b").unwrap()).unwrap();
    }
    assert_eq!(files.runs(), 1);
    let three = [(); 3].map(|()| shards.get_on("b").unwrap());
    assert_eq!(files.runs(), 3);
    drop(three);
    // A reload of the same says nothing new.
    let change = shards.reload(&load(&path)).unwrap();
    assert_eq!((change.replaced.len(), files.runs()), (0, 3));

    // The password rotates: what is connected stays, and the next connect asks again.
    user.change_password(NEW);
    files.write("password", NEW);
    for _ in 0..5 {
        whoami(&mut shards.get_on("b").unwrap()).unwrap();
    }
    assert_eq!(files.runs(), 3);
    fleet.kill_all("b");
    let mut failures = 0;
    for _ in 0..10 {
        let found = shards.on("b", || Ok::<_, Error>(whoami(&mut shards.get()?)?));
        failures += usize::from(found.is_err());
    }
    assert!(failures <= 3, "{failures} calls failed");
    assert!(files.runs() > 3);
    assert_clean(&format!(
        "{shards:?} {:?} {:?} {config:?}",
        shards.status(),
        shards.topology()
    ));
    drop(shards);
}

#[test]
fn a_password_command_that_fails_is_told_without_what_it_says_and_recovers() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, NEW, 0);
    let files = Files::new();
    let program = files.program();
    // The old password, printed although it is wrong now.
    files.write("password", OLD);
    let command = format!(
        "{{ command = [{:?}, {:?}, {OLD:?}] }}",
        program[0], program[1]
    );
    let shards = Manager::from_config(&load(&config(&files, &user, &command, ""))).unwrap();
    let authentication = |shards: &Manager| {
        let error = shards.get_on("b").unwrap_err();
        let text = told(&error, &[OLD, NEW, "0ld-S3cret"]);
        assert!(
            matches!(
                error,
                Error::Unavailable {
                    cause: UnavailableCause::Authentication,
                    ..
                }
            ),
            "{text}"
        );
        text
    };
    authentication(&shards);
    files.write("password", NEW);
    eventually("the new password is found", || shards.get_on("b").is_ok());
    drop(shards);

    // One that fails, and says a secret while it does.
    let failing = files.write(
        "failing",
        &format!("echo '{NEW}'; echo '{NEW}' >&2; exit 3"),
    );
    let command = format!(
        "{{ command = [\"sh\", {:?}] }}",
        failing.display().to_string()
    );
    let shards = Manager::from_config(&load(&config(&files, &user, &command, ""))).unwrap();
    let text = authentication(&shards);
    assert!(text.contains("`sh`") && text.contains("shard b"), "{text}");
    drop(shards);
    let command = "{ command = [\"no-such-program-here\"] }";
    let shards = Manager::from_config(&load(&config(&files, &user, command, ""))).unwrap();
    assert!(authentication(&shards).contains("no-such-program-here"));
}

#[test]
fn a_password_command_that_hangs_is_bounded_by_the_connect_timeout() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, OLD, 0);
    let files = Files::new();
    files.write("password", OLD);
    // It waits as long as the file is there.
    let hang = files.write("hang", "");
    let script = files.write(
        "hanging",
        &format!(
            "while [ -e '{}' ]; do sleep 0.05; done; cat '{}'",
            hang.display(),
            files.path("password").display()
        ),
    );
    let command = format!(
        "{{ command = [\"sh\", {:?}] }}",
        script.display().to_string()
    );
    let shards = Manager::from_config(&load(&config(&files, &user, &command, ""))).unwrap();
    let began = Instant::now();
    let error = shards.get_on("b").unwrap_err();
    let (waited, text) = (began.elapsed(), told(&error, &[OLD]));
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(
        waited >= Duration::from_millis(1_900) && waited < Duration::from_secs(6),
        "{waited:?}: {text}"
    );
    let began = Instant::now();
    shards.get_on("b").unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    std::fs::remove_file(&hang).unwrap();
    eventually("the node is up", || shards.get_on("b").is_ok());
    drop(shards);
}

#[test]
fn an_own_connect_function_may_bring_another_password_each_time() {
    let fleet = Fleet::new(&["a", "b"]);
    let user = User::new(&fleet, OLD, 0);
    let vault = Arc::new(Mutex::new(OLD));
    let (asked, name) = (Arc::clone(&vault), user.name().to_owned());
    let shards = Manager::builder()
        .pool(crate::support::pool(2))
        .shard("b", user.url("not the password"))
        .connect_with(move |node| {
            let password = *asked.lock().unwrap();
            open(&as_user(node.url().expose(), &name, password))
        })
        .build()
        .unwrap();
    whoami(&mut shards.get_on("b").unwrap()).unwrap();
    user.change_password(NEW);
    *vault.lock().unwrap() = NEW;
    let two = [(); 2].map(|()| shards.get_on("b").unwrap());
    drop(two);
    *vault.lock().unwrap() = "neither";
    fleet.kill_all("b");
    let error = (0..10).find_map(|_| match shards.get_on("b") {
        Ok(mut conn) => {
            let _ = whoami(&mut conn);
            None
        }
        Err(error) => Some(error),
    });
    told(
        &error.expect("no connection is left"),
        &[OLD, NEW, "not the password"],
    );
    *vault.lock().unwrap() = NEW;
    eventually("the node is up", || shards.get_on("b").is_ok());
    drop(shards);
}
