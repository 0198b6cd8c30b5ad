//! The bytes of a file, and what of them is durable.

use super::luck::Luck;

/// What survives a crash or does not, whole.
const SECTOR: usize = 512;

/// A file, whatever its names are.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    pub(super) content: Vec<u8>,
    unsynced: Vec<Change>,
}

/// One change of a file's bytes that is not durable, with what it takes to undo it.
#[derive(Debug, Clone)]
struct Change {
    offset: usize,
    new: Vec<u8>,
    old: Vec<u8>,
    old_len: usize,
    /// A sync has failed since: no later sync will make this durable, as on Linux, where pages are taken for
    /// clean after the error was told once.
    given_up: bool,
}

impl Inode {
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let old_len = self.content.len();
        let end = offset + bytes.len();
        let old = self.content.get(offset..end.min(old_len)).unwrap_or(&[]).to_vec();
        if end > old_len {
            self.content.resize(end, 0);
        }
        self.content[offset..end].copy_from_slice(bytes);
        self.unsynced.push(Change { offset, new: bytes.to_vec(), old, old_len, given_up: false });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let old_len = self.content.len();
        let old = self.content.get(len..).unwrap_or(&[]).to_vec();
        self.content.resize(len, 0);
        self.unsynced.push(Change { offset: len, new: Vec::new(), old, old_len, given_up: false });
    }

    /// A sync has failed: what was written before it is never made durable.
    pub(super) fn give_up(&mut self) {
        self.unsynced.iter_mut().for_each(|change| change.given_up = true);
    }

    pub(super) fn sync(&mut self) {
        let changes = std::mem::take(&mut self.unsynced);
        for (at, change) in changes.iter().enumerate() {
            if !change.given_up {
                continue;
            }
            if change.new.is_empty() && changes[at + 1..].iter().any(|later| !later.given_up) {
                // The length is that of the whole file, and now it is durable.
                continue;
            }
            let mut left = change.clone();
            for later in changes[at + 1..].iter().filter(|later| !later.given_up) {
                // What a later, successful sync covers is durable, whatever was given up before it.
                if later.new.is_empty() {
                    // What lay behind a durable end does not come back.
                    let kept = later.offset.saturating_sub(left.offset);
                    left.old.truncate(kept);
                    left.new.truncate(kept);
                    left.old_len = later.offset;
                } else {
                    left.old_len = left.old_len.max(later.offset + later.new.len());
                }
                // Where the file has a durable end beyond what it held, it holds zeros.
                let reach = left.old_len.saturating_sub(left.offset).min(left.new.len());
                if left.old.len() < reach {
                    left.old.resize(reach, 0);
                }
                for (index, byte) in later.new.iter().enumerate() {
                    let place = (later.offset + index).checked_sub(left.offset);
                    let Some(place) = place else { continue };
                    for bytes in [&mut left.old, &mut left.new] {
                        if let Some(slot) = bytes.get_mut(place) {
                            *slot = *byte;
                        }
                    }
                }
            }
            if change.new.is_empty() || !left.new.is_empty() {
                self.unsynced.push(left);
            }
        }
    }

    pub(super) fn after_crash(&self, luck: &mut Luck) -> Self {
        let mut content = self.content.clone();
        for change in self.unsynced.iter().rev() {
            content.resize(change.old_len, 0);
            let end = (change.offset + change.old.len()).min(content.len());
            if end > change.offset {
                content[change.offset..end].copy_from_slice(&change.old[..end - change.offset]);
            }
        }
        for change in &self.unsynced {
            if change.new.is_empty() {
                if luck.survives() {
                    content.resize(change.offset, 0);
                }
                continue;
            }
            let mut at = change.offset;
            let end = change.offset + change.new.len();
            while at < end {
                let sector_end = (at / SECTOR + 1) * SECTOR;
                let to = sector_end.min(end);
                if luck.survives() {
                    if content.len() < to {
                        content.resize(to, 0);
                    }
                    content[at..to].copy_from_slice(&change.new[at - change.offset..to - change.offset]);
                }
                at = to;
            }
        }
        Self { content, unsynced: Vec::new() }
    }
}
