//! Imports run one way: a file imports only from layers that stand left of its own.

use std::fs;
use std::path::{Path, PathBuf};

/// From left to right. Names, errors and telemetry know only each other.
const LAYERS: [&[&str]; 9] = [
    &["name", "error", "telemetry", "key"],
    &["algorithm", "replica", "rewrite"],
    &["topology"],
    &["route"],
    &["config", "web"],
    &["driver"],
    &["blocking", "nonblocking"],
    &["migrate"],
    &["macro_support"],
];

/// Imports against the direction that are part of the design, each with its reason.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "topology",
    "route",
    "a topology makes routes and reads their text form, as the managers do",
)];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source folder can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules below `crate::` that a line of code names.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split("crate::").skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn imports_run_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut checked, mut wrong) = (0, Vec::new());
    for file in files {
        let relative = file.strip_prefix(&root).expect("below src");
        let first = relative.iter().next().expect("a name");
        let own = Path::new(first).file_stem().and_then(|stem| stem.to_str());
        let own = own.expect("a name in UTF-8");
        // A crate of its own: the compiler lets it see nothing but the public API.
        if own == "bin" {
            continue;
        }
        let Some(own_layer) = layer(own) else {
            assert_eq!(own, "lib", "{} belongs to no layer", relative.display());
            continue;
        };
        let text = fs::read_to_string(&file).expect("a source file");
        for (number, line) in (1..).zip(text.lines()) {
            for module in named(line) {
                let Some(other) = layer(module) else {
                    continue;
                };
                checked += 1;
                let excepted = EXCEPTIONS
                    .iter()
                    .any(|(from, to, _)| *from == own && *to == module);
                if module != own && other > own_layer && !excepted {
                    wrong.push(format!("{}:{number} imports {module}", relative.display()));
                }
            }
        }
    }
    assert!(checked > 50, "only {checked} imports were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_telemetry_names_tracing_and_metrics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let below = file.strip_prefix(&root).expect("a file below src");
        if below.starts_with("telemetry") || below == Path::new("telemetry.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            if line.contains("tracing::") || line.contains("metrics::") {
                wrong.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
