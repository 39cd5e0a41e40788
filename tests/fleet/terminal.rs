//! Progress bars, in a pseudo-terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::harness::{Stage, shards};
use crate::support::sqlite::Fleet;

/// Runs a command on a terminal of this size; answers its exit code and what it wrote there.
fn on_a_terminal(mut command: Command, rows: u16, columns: u16) -> (Option<i32>, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it can be opened");
    let name = ptsname(&ours, Vec::new()).expect("it has a name");
    let theirs = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let theirs: OwnedFd = theirs.expect("its other end can be opened");
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("it has a size");
    let another = || Stdio::from(theirs.try_clone().expect("it can be shared"));
    let mut child = command
        .env("TERM", "xterm-256color")
        .stdin(another())
        .stdout(another())
        .stderr(another())
        .spawn()
        .expect("the binary can be started");
    // The command keeps its own copies, and so would keep the terminal open.
    drop(command);
    drop(theirs);
    let mut written = Vec::new();
    // Linux ends the reading with an error once the last other end is closed.
    let _ = File::from(ours).read_to_end(&mut written);
    let status = child.wait().expect("the binary ends");
    let text = String::from_utf8(written).expect("the binary prints UTF-8");
    crate::support::assert_no_secret(&text);
    (status.code(), text)
}

fn stage(fleet: &Fleet, migrations: usize) -> Stage {
    let names = fleet.shards();
    let urls = names.iter().map(|name| (name.as_str(), fleet.url(name)));
    let stage = Stage::new(&format!(
        "{}[keyspaces.orders]\nshards = {names:?}\nmigrations = \"migrations\"\n",
        shards(urls)
    ));
    for number in 1..=migrations {
        stage.migration(
            &format!("2024-01-{number:02}-000000_t{number}"),
            &format!("CREATE TABLE t{number} (id BIGINT PRIMARY KEY)"),
            &format!("DROP TABLE t{number}"),
        );
    }
    stage
}

/// The text with the control sequences taken out.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn every_shard_has_a_bar_while_it_is_worked_on() {
    let fleet = Fleet::new(&["order-0", "order-1", "order-2"]);
    let stage = stage(&fleet, 2);
    // Bars are drawn 20 times a second at most, so that this one takes its time.
    stage.migration(
        "2024-01-03-000000_count",
        "CREATE TABLE counted AS WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 3000000) SELECT count(*) AS c FROM n",
        "DROP TABLE counted",
    );
    let command = stage.command(&["migration", "run", "--parallel", "2"]);
    let (code, text) = on_a_terminal(command, 40, 120);
    assert_eq!(code, Some(0), "{text}");
    let plain = plain(&text);
    for shard in fleet.shards() {
        assert!(
            plain.contains(&format!("{shard} [")),
            "no bar of {shard}: {plain}"
        );
        assert!(
            plain.contains(&format!("{shard}: done, 3 migrations")),
            "{plain}"
        );
    }
    assert!(plain.contains("of 3 databases"), "{plain}");
    assert!(plain.contains("3 databases: 3 done"), "{plain}");
    // Bars are drawn over, and gone at the end; what came of it has colours.
    assert!(text.contains("\u{1b}["), "{text:?}");
    assert!(text.contains("\u{1b}[32m"), "{text:?}");
    // Single migrations are told by the bars alone.
    assert!(!plain.contains("_t1 up ("), "{plain}");
}

/// A large fleet does not fill the screen: a few bars, however many shards are worked on.
#[test]
fn the_number_of_bars_is_bounded() {
    let names: Vec<String> = (1..=40).map(|number| format!("s{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fleet = Fleet::new(&names);
    let stage = stage(&fleet, 1);
    let command = stage.command(&["migration", "run", "--parallel", "40"]);
    let (code, text) = on_a_terminal(command, 24, 80);
    assert_eq!(code, Some(0), "{text}");
    // To draw over its bars, the cursor goes up as many lines as there are.
    let most = text
        .split("\u{1b}[")
        .filter_map(|piece| piece.split_once('A'))
        .filter_map(|(lines, _)| lines.parse::<usize>().ok())
        .max();
    assert!(
        most.is_some_and(|lines| lines <= 9),
        "{most:?} lines: {text:?}"
    );
}

/// Machines and people without colours get none of it, on a terminal too.
#[test]
fn what_was_asked_for_counts_more_than_the_terminal() {
    let fleet = Fleet::new(&["a"]);
    let stage = stage(&fleet, 1);
    let json = stage.command(&["migration", "run", "--format", "json"]);
    let (code, text) = on_a_terminal(json, 24, 80);
    assert_eq!(code, Some(0), "{text}");
    let events = text.lines().filter(|line| line.starts_with('{')).count();
    assert!(events >= 5, "{text}");
    assert!(!text.contains(" ["), "no bar: {text}");

    let status = stage.command(&["migration", "status", "--color", "never"]);
    let (code, text) = on_a_terminal(status, 24, 80);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let mut status = stage.command(&["migration", "status"]);
    status.env("NO_COLOR", "1");
    let (_, text) = on_a_terminal(status, 24, 80);
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let (_, text) = on_a_terminal(stage.command(&["migration", "status"]), 24, 80);
    assert!(text.contains("\u{1b}[32m"), "{text:?}");
}

/// A verification says how far it is, and nothing of that stays.
#[test]
fn a_verification_shows_how_far_it_is() {
    let fleet = Fleet::new(&["a"]);
    let stage = Stage::new(&format!(
        "{}[keyspaces.orders]\nshards = [\"a\"]\nkey = \"integer\"\nalgorithm = {{ kind = \"hash\" }}\n\
         tables = {{ orders = {{ key_column = \"k\" }} }}\n",
        shards([("a", fleet.url("a"))])
    ));
    let rows = "CREATE TABLE orders (k INTEGER PRIMARY KEY);
         INSERT INTO orders WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 200000) SELECT x FROM n";
    diesel::connection::SimpleConnection::batch_execute(&mut fleet.direct("a"), rows)
        .expect("a table with rows");
    let command = stage.command(&["verify", "--rate", "400000"]);
    let (code, text) = on_a_terminal(command, 24, 100);
    assert_eq!(code, Some(0), "{text}");
    let plain = plain(&text);
    assert!(plain.contains(" rows  "), "{plain}");
    assert!(plain.contains("/s"), "{plain}");
    assert!(
        plain.contains("200000 rows in 1 table, all where they belong"),
        "{plain}"
    );
    // The line of the bar is cleared: what stays is the answer.
    assert!(text.contains("\u{1b}[2K"), "{text:?}");

    let output = stage.run(&["verify", "--rate", "unlimited"]).exits(0);
    assert!(!output.stderr.contains("/s"), "no terminal: {output:#?}");
}

/// Colours that were asked for are in the matrix too, and move no column.
#[test]
fn the_states_have_colours_where_they_are_asked_for() {
    let fleet = Fleet::new(&["a", "order-1"]);
    let stage = stage(&fleet, 1);
    stage.run(&["migration", "run", "-s", "a"]).exits(0);
    let status = |color: &str| {
        let args = ["migration", "status", "--color", color];
        stage.run(&args).exits(0).stdout
    };
    let (always, never) = (status("always"), status("never"));
    assert!(
        always.contains("\u{1b}[32mup to date\u{1b}[0m"),
        "{always:?}"
    );
    assert!(always.contains("\u{1b}[33mpending\u{1b}[0m"), "{always:?}");
    assert_eq!(plain(&always), never);
    assert!(
        never.lines().all(|line| line.trim_end() == line),
        "{never:?}"
    );
}
