//! Results on standard output: tables for people, JSON for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::cli::Format;

/// Rows under a heading, in columns as wide as they need to be.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row; it has as many cells as the heading.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// The table as text, a line for each row.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Prints `value` as JSON, or what `table` makes of it.
pub(crate) fn show<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> io::Result<()> {
    match format {
        Format::Json => {
            let mut json = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
            json.push('\n');
            print(&json)
        }
        Format::Table => print(&table(value)),
    }
}

/// Writes `text` to standard output. A reader that has had enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Text that somebody else chose, with what would move a terminal's cursor or colour spelled out.
pub(crate) fn plain(text: &str) -> String {
    if !text.contains(moves) {
        return text.to_owned();
    }
    let spell = |char: char| if moves(char) { char.escape_default().to_string() } else { char.to_string() };
    text.chars().map(spell).collect()
}

/// Whether a character does something to those around it: moves the cursor, breaks the line, changes the direction in
/// which text is read.
fn moves(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// The most characters of a name that a sentence shows.
const NAME_SHOWN: usize = 300;

/// A name that somebody else chose, for a sentence: in quotes if its ends could not be seen without.
pub(crate) fn name(text: &str) -> String {
    let shown = match text.char_indices().nth(NAME_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let odd = |char: char| moves(char) || char.is_whitespace() || "\"'`,;:()[]{}".contains(char);
    if text.is_empty() || shown.contains(odd) {
        format!("\"{}\"", plain(&shown.replace('"', "\\\"")))
    } else {
        shown
    }
}

/// Tells people something beside the result, which stays fit for programs.
#[expect(clippy::print_stderr, reason = "what is not the result goes to standard error")]
pub(crate) fn note(text: &str) {
    eprintln!("kohort: {}", plain(text));
}

/// A number of things for people.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit + 1 < UNITS.len() && count / scale >= 1024 {
        scale *= 1024;
        unit += 1;
    }
    if unit == 0 {
        return format!("{count} {}", UNITS[0]);
    }
    let tenths = u128::from(count) * 10 / u128::from(scale);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Milliseconds with three digits behind the point, as logs have them.
pub(crate) fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let mut table = Table::new(&["NAME", "PARTITIONS"]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["größer".to_owned(), "12".to_owned()]);
        assert_eq!(table.render(), "NAME    PARTITIONS\na       1\ngrößer  12\n");
    }

    #[test]
    fn nobody_elses_text_reaches_the_terminals_controls() {
        assert_eq!(plain("größer"), "größer");
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
    }

    #[test]
    fn a_sentence_shows_where_a_name_begins_and_ends() {
        for (text, shown) in [
            ("billing-2.eu/größer", "billing-2.eu/größer"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a;", "\"a;\""),
            ("say \"a\"\n", "\"say \\\"a\\\"\\n\""),
            ("a\u{202e}b", "\"a\\u{202e}b\""),
        ] {
            assert_eq!(name(text), shown);
        }
        assert_eq!(name(&"ü".repeat(NAME_SHOWN)), "ü".repeat(NAME_SHOWN));
        assert_eq!(name(&"ü".repeat(NAME_SHOWN + 1)), "ü".repeat(NAME_SHOWN) + "…");
    }

    #[test]
    fn bytes_are_written_for_people() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
