//! Where things are in this checkout.

use std::path::PathBuf;

/// The root of the repository.
pub fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..").canonicalize().unwrap_or(manifest)
}

/// Cargo's target directory; everything that is fetched or built for the tests goes below it.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Where toolchains, jars and compiled client programs are kept.
pub fn tools() -> PathBuf {
    target().join("e2e-tools")
}

/// The sources of the client programs.
pub fn clients() -> PathBuf {
    root().join("crates/e2e/clients")
}
