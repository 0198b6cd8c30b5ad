//! The pages of the program itself.

use std::fs;
use std::io;

use rustix::mm::{Advice, madvise};
use tracing::debug;

/// Gives back the pages of code that only the start has needed.
///
/// The system maps sixteen pages for each one that is touched, and a start touches a little of everything: command
/// line, settings, recovery, TLS. All of that would count as this process's memory for as long as it lives. What is
/// needed again is in the system's page cache and comes back as it is touched.
pub(crate) fn let_go_of_the_start() {
    if let Err(failure) = own_mappings().and_then(|mappings| mappings.into_iter().try_for_each(let_go)) {
        debug!(%failure, "the code of the start stays in memory");
    }
}

/// Addresses from and to.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
}

fn own_mappings() -> io::Result<Vec<Mapping>> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    Ok(never_written(&fs::read_to_string("/proc/self/maps")?, program))
}

/// The mappings of `program` that are as they are in its file: its code, and what lies before it. What lies behind is
/// read-only as well, but was written when the program was loaded.
fn never_written(maps: &str, program: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        let mut fields = line.split_whitespace();
        let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_code = rights == "r-xp" || rights == "r--p" && number(offset)? == 0;
        (is_code && line.ends_with(program)).then_some(Mapping { start: number(start)?, end: number(end)? })
    };
    maps.lines().filter_map(mapping).collect()
}

fn let_go(Mapping { start, end }: Mapping) -> io::Result<()> {
    let from = std::ptr::without_provenance_mut(start);
    // SAFETY: the range is mapped from the program's file and was never written, so what is read there next is what
    // was there before. Nothing of it is ever unmapped.
    #[expect(unsafe_code, reason = "there is no safe way to speak of the program's own pages")]
    let done = unsafe { madvise(from, end - start, Advice::LinuxDontNeed) };
    Ok(done?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_what_lies_before_it_is_let_go_and_nothing_that_was_written() {
        let maps = "\
55d0c0000000-55d0c0800000 r--p 00000000 fe:00 123 /opt/kohort
55d0c0800000-55d0c2000000 r-xp 007ff000 fe:00 123 /opt/kohort
55d0c2000000-55d0c2100000 r--p 01fff000 fe:00 123 /opt/kohort
55d0c2100000-55d0c2110000 rw-p 020ff000 fe:00 123 /opt/kohort
55d0c3000000-55d0c3100000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 r-xp 00000000 fe:00 124 /usr/lib/libc.so.6
";
        let expected = [
            Mapping { start: 0x55d0_c000_0000, end: 0x55d0_c080_0000 },
            Mapping { start: 0x55d0_c080_0000, end: 0x55d0_c200_0000 },
        ];
        assert_eq!(never_written(maps, "/opt/kohort"), expected);
    }

    #[test]
    fn a_program_goes_on_without_the_pages_of_its_start() {
        let mappings = own_mappings().expect("Linux tells");
        assert!(mappings.len() >= 2, "{mappings:?}");
        let_go_of_the_start();
        // Reading a file, taking it apart and comparing all live in those pages.
        assert_eq!(own_mappings().expect("Linux tells"), mappings);
    }
}
