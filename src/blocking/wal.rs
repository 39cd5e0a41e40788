//! SQLite databases in WAL mode, seen by somebody who may not write beside them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::topology::NodeSpec;

/// The file of a SQLite database in WAL mode. The file format says so in its bytes 18 and 19
/// (sqlite.org/fileformat2.html, "File format version numbers").
pub(crate) fn file(spec: &NodeSpec) -> Option<PathBuf> {
    let file = spec.url.sqlite_file()?;
    let mut header = [0; 20];
    File::open(&file).ok()?.read_exact(&mut header).ok()?;
    (header[18] == 2 || header[19] == 2).then_some(file)
}

/// What to do about a database in WAL mode that SQLite could not read: it needs the files `-wal` and
/// `-shm` beside it, also for reading, and makes them where they are not there
/// (sqlite.org/wal.html, "Read-Only Databases").
pub(crate) fn hint(file: &Path) -> String {
    let beside = |end: &str| {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(end);
        file.with_file_name(name)
    };
    let (wal, shm) = (beside("-wal"), beside("-shm"));
    let folder = file.parent().unwrap_or(Path::new("."));
    if shm.exists() {
        format!(
            "it is in WAL mode, where SQLite needs {} and {} also for reading, and this user may not use them as they are: give this user the right to read and write them and the folder {}, or look as a user who has it",
            wal.display(),
            shm.display(),
            folder.display()
        )
    } else {
        format!(
            "it is in WAL mode, where SQLite needs {} and {} also for reading; while nobody has the database open they are not there, and this user may not make them: give this user the right to write in the folder {}, look as a user who has it, or look while a program has the database open",
            wal.display(),
            shm.display(),
            folder.display()
        )
    }
}
