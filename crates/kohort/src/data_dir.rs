//! The data directory, which is its owner's alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes the directory for its owner alone: the log holds what passwords are checked against. One that exists already
/// stays as it is, and so does what is above it.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if path.is_dir() {
                return Ok(());
            }
            Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"))
        }
        made => made,
    }
}

/// What to say of a directory that every user of the machine can read.
pub(crate) fn objection(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    // Who may only enter can read a file whose name is known, and the names in it are known.
    (mode & 0o005 != 0).then(|| {
        let path = path.display();
        format!(
            "every user of this machine can read the data directory (mode {mode:o}) and what it holds of passwords; \
             run: chmod 700 {path}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_directory_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("above/data");
        make(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(objection(&path), None);
        make(&path).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_read_stays_so_and_is_objected_to() {
        let dir = tempfile::tempdir().unwrap();
        for open in [0o755, 0o711] {
            fs::set_permissions(dir.path(), Permissions::from_mode(open)).unwrap();
            make(dir.path()).unwrap();
            assert_eq!(mode(dir.path()), open);
            let said = objection(dir.path()).unwrap();
            assert!(said.ends_with(&format!("run: chmod 700 {}", dir.path().display())), "{said}");
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o750)).unwrap();
        assert_eq!(objection(dir.path()), None, "a group is chosen on purpose");
    }

    #[test]
    fn a_file_is_no_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(make(file.path()).unwrap_err().to_string(), "it is not a directory");
    }
}
