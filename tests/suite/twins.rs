//! The drivers are twins: the same files, the same public methods, in the same order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What one driver has and the other has not, each with its reason.
const ONE_SIDED: [(&str, &str, &str); 3] = [
    ("direct.rs", "connect_node", TOOL),
    ("direct.rs", "ping_node", TOOL),
    ("verify.rs", "verify", TOOL),
];

const TOOL: &str = "a function of a topology, not of a manager: for tools that go through databases \
                    one after the other and have no runtime";

/// The names of the public methods and functions of each file of a driver.
fn methods(driver: &str) -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(driver);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a driver's folder") {
        let path = entry.expect("its entries can be read").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let text = fs::read_to_string(&path).expect("a source file");
        let names: Vec<String> = text.lines().filter_map(public).collect();
        if !names.is_empty() {
            found.insert(name.expect("a name in UTF-8").to_owned(), names);
        }
    }
    found
}

/// The name of the function that a line declares for the world.
fn public(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    Some(name[..end].to_owned())
}

#[test]
fn both_drivers_have_the_same_public_methods_in_the_same_order() {
    let (blocking, nonblocking) = (methods("blocking"), methods("nonblocking"));
    let mut compared = 0;
    let mut differences = Vec::new();
    let mut used = 0;
    let files: std::collections::BTreeSet<_> = blocking.keys().chain(nonblocking.keys()).collect();
    for file in files {
        let mut of = |driver: &BTreeMap<String, Vec<String>>| -> Vec<String> {
            let names = driver.get(file).cloned().unwrap_or_default();
            let known = |name: &String| {
                ONE_SIDED
                    .iter()
                    .any(|(where_, method, _)| where_ == file && method == name)
            };
            used += names.iter().filter(|name| known(name)).count();
            names.into_iter().filter(|name| !known(name)).collect()
        };
        let (one, other) = (of(&blocking), of(&nonblocking));
        compared += one.len();
        if one != other {
            differences.push(format!(
                "{file}:\n  blocking    {one:?}\n  nonblocking {other:?}"
            ));
        }
    }
    assert!(compared > 60, "only {compared} methods were compared");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(used, ONE_SIDED.len(), "an exception that nobody needs");
}

#[test]
fn no_driver_imports_the_other() {
    for (driver, other) in [("blocking", "nonblocking"), ("nonblocking", "blocking")] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(driver);
        let mut folders = vec![root];
        let mut read = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder of a driver") {
                let path = entry.expect("its entries can be read").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(&path).expect("a source file");
                read += 1;
                for (number, line) in (1..).zip(text.lines()) {
                    let code = line.split("//").next().unwrap_or_default();
                    let imports = code.contains(&format!("crate::{other}::"));
                    assert!(!imports, "{}:{number} imports {other}", path.display());
                }
            }
        }
        assert!(read > 15, "only {read} files of {driver}");
    }
}
