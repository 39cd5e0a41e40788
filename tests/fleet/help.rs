//! What people read before they do anything: help, man pages, completions, refusals.
//!
//! The help of every command is kept in `snapshots/`. Where a change is meant:
//! `INSTA_UPDATE=always cargo test --features full,bundled,cli --test fleet help::`

use std::process::Command;

use crate::harness::Stage;

/// Every command, as its words; found by asking, so that a new one cannot be forgotten.
fn commands() -> Vec<Vec<String>> {
    fn below(words: &[String], found: &mut Vec<Vec<String>>) {
        let help = help_of(words, "--help");
        found.push(words.to_vec());
        let listed = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty())
            // A description that is too long goes on in the next line, far from the margin.
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next());
        for name in listed.filter(|name| *name != "help") {
            let mut words = words.to_vec();
            words.push(name.to_owned());
            below(&words, found);
        }
    }
    let mut found = Vec::new();
    below(&[], &mut found);
    found
}

fn help_of(words: &[String], flag: &str) -> String {
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    args.push(flag);
    let output = Stage::empty().run(&args).exits(0);
    assert_eq!(output.stderr, "");
    output.stdout
}

#[test]
fn every_help_is_as_it_was_read_last() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let commands = commands();
    for expected in [&["config", "check"][..], &["locate"], &["man"]] {
        assert!(
            commands.iter().any(|words| words == expected),
            "{expected:?}"
        );
    }
    for words in commands {
        let name = if words.is_empty() {
            "help".to_owned()
        } else {
            format!("help-{}", words.join("-"))
        };
        settings.bind(|| insta::assert_snapshot!(name, help_of(&words, "--help")));
    }
}

/// Whoever asks a command for help gets something to type.
#[test]
fn every_help_teaches_by_example() {
    for words in commands() {
        let help = help_of(&words, "-h");
        let group = help.contains("\nCommands:\n");
        assert!(
            group || help.contains("Examples:\n  diesel-sharded "),
            "{words:?}: {help}"
        );
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "too long in {words:?}: {line}");
        }
    }
}

#[test]
fn what_is_misspelled_exits_with_2() {
    for (args, expected) in [
        (&["confg", "check"][..], "config"),
        (&["config", "chek"], "check"),
        (&["locate", "orders"], "<KEY>"),
        (&["config", "check", "--formt", "json"], "--format"),
        (&["config", "check", "--format", "xml"], "json"),
        (&["completions", "cmd.exe"], "bash"),
    ] {
        let output = Stage::empty().run(args).exits(2);
        assert!(output.stderr.contains(expected), "{output:#?}");
        assert_eq!(output.stdout, "");
    }
}

/// Whoever reads events reads of a misspelled command there, too.
#[test]
fn machines_are_told_what_is_misspelled() {
    for (args, expected) in [
        (&["config", "chek", "--format", "json"][..], "'chek'"),
        (&["--format=json", "locate", "orders"], "<KEY>"),
        (&["config", "--format", "json"], "subcommand"),
        (
            &["config", "check", "--fleet", "x", "--format=json"],
            "--fleet",
        ),
    ] {
        let output = Stage::empty().run(args).exits(2);
        let events = output.events();
        assert_eq!(events.len(), 1, "{output:#?}");
        assert_eq!(events[0]["event"], "error");
        assert_eq!(events[0]["exit_code"], 2);
        let message = events[0]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("Usage"), "{message}");
        assert!(output.stderr.contains("error: "), "{output:#?}");
    }
    let help = Stage::empty()
        .run(&["config", "--help", "--format", "json"])
        .exits(0);
    assert!(
        help.stdout.contains("Examples") || help.stdout.contains("Usage"),
        "{help:#?}"
    );
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Stage::empty().run(&["completions", shell]).exits(0).stdout;
        for words in commands() {
            for word in words {
                assert!(script.contains(&word), "{word} in {shell}");
            }
        }
    }
    let stage = Stage::empty();
    let script = stage.run(&["completions", "bash"]).exits(0).stdout;
    let script = stage.write("complete.bash", &script);
    let checked = Command::new("bash").arg("-n").arg(script).status();
    assert!(checked.expect("bash is there").success());
}

#[test]
fn the_manual_has_a_page_per_command() {
    let stage = Stage::empty();
    let page = stage.run(&["man"]).exits(0).stdout;
    assert!(page.contains(".TH diesel\\-sharded 1") || page.contains(".TH diesel-sharded 1"));
    assert!(page.contains("Exit codes"), "{page}");
    stage.run(&["man", "--dir", "pages"]).exits(0);
    for words in commands() {
        let mut name = vec!["diesel-sharded".to_owned()];
        name.extend(words);
        let path = stage.path().join(format!("pages/{}.1", name.join("-")));
        assert!(path.is_file(), "{}", path.display());
    }
}

#[test]
fn colours_are_a_terminals_matter() {
    let fleet = "[shards.a]\nurl = \"a.db\"\n";
    let stage = Stage::new(fleet);
    let plain = stage.run(&["config", "check"]).exits(0).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let forced = stage
        .run(&["config", "check", "--color", "always"])
        .exits(0)
        .stdout;
    assert!(forced.contains('\u{1b}'), "{forced:?}");
    let never = stage.run(&["config", "check", "--color=never"]).exits(0);
    assert_eq!(never.stdout, plain);
}
