//! How many connections somebody has open: SQLite, where they are files of this process.

use super::backend::Fleet;

/// The descriptors of the shard's database file.
pub(crate) fn open(fleet: &Fleet, shard: &str) -> i64 {
    let file = std::fs::canonicalize(fleet.url(shard)).expect("the file is there");
    std::fs::read_dir("/proc/self/fd")
        .expect("Linux says which files are open")
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|open| open == file))
        .count()
        .try_into()
        .expect("not that many")
}
