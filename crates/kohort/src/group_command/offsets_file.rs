//! Offsets in a CSV file, as Kafka's tool reads and writes them.

use super::reset_plan::Planned;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The group; none where the file is for one group only.
    pub(crate) group: Option<String>,
    /// The topic.
    pub(crate) topic: String,
    /// The partition's number.
    pub(crate) partition: i32,
    /// The offset to go to.
    pub(crate) offset: i64,
}

impl Line {
    /// Whether it is for this group.
    pub(crate) fn is_for(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|named| named == group)
    }
}

/// Reads lines of `topic,partition,offset` or `group,topic,partition,offset`; the error names the line.
pub(crate) fn read(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = split(text.trim()).and_then(line).ok_or_else(|| {
            let number = number + 1;
            format!(
                "line {number}: `{text}` is neither TOPIC,PARTITION,OFFSET nor GROUP,TOPIC,PARTITION,OFFSET"
            )
        })?;
        lines.push(line);
    }
    Ok(lines)
}

fn line(mut cells: Vec<String>) -> Option<Line> {
    let group = match cells.len() {
        3 => None,
        4 => Some(cells.remove(0)),
        _ => return None,
    };
    let [topic, partition, offset] = cells.try_into().ok()?;
    let partition = partition.trim().parse().ok().filter(|partition| *partition >= 0)?;
    let line = Line { group, topic, partition, offset: offset.trim().parse().ok()? };
    (!line.topic.is_empty()).then_some(line)
}

/// The cells of a line. A cell in quotes may hold commas, and quotes written twice.
fn split(text: &str) -> Option<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(cells),
        }
    }
}

/// What stands before the closing quote, and what comes after it.
fn quoted_cell(text: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Some((cell, after)),
        }
    }
}

/// Writes what [`read`] reads, with the group's name where there is more than one.
pub(crate) fn write<'a>(plans: impl IntoIterator<Item = (&'a str, &'a [Planned])>, several: bool) -> String {
    let mut text = String::new();
    for (group, plan) in plans {
        for planned in plan {
            if several {
                text.push_str(&format!("{},", cell(group)));
            }
            text.push_str(&format!(
                "{},{},{}\n",
                cell(&planned.topic),
                planned.partition,
                planned.new_offset
            ));
        }
    }
    text
}

fn cell(text: &str) -> String {
    if text.contains([',', '"']) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(topic: &str, partition: i32, new_offset: i64) -> Planned {
        Planned {
            topic: topic.to_owned(),
            partition,
            new_offset,
            current_offset: None,
            log_end_offset: 9,
            new_lag: 0,
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let plan = [planned("orders", 0, 4), planned("orders", 1, 0)];
        let one = write([("billing", &plan[..])], false);
        assert_eq!(one, "orders,0,4\norders,1,0\n");
        let line = |group: Option<&str>, partition, offset| Line {
            group: group.map(str::to_owned),
            topic: "orders".to_owned(),
            partition,
            offset,
        };
        assert_eq!(read(&one), Ok(vec![line(None, 0, 4), line(None, 1, 0)]));
        let odd = "a, \"b\"";
        let several = write([("billing", &plan[..1]), (odd, &plan[1..])], true);
        assert_eq!(several, "billing,orders,0,4\n\"a, \"\"b\"\"\",orders,1,0\n");
        assert_eq!(read(&several), Ok(vec![line(Some("billing"), 0, 4), line(Some(odd), 1, 0)]));
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert_eq!(read("\r\norders,0,4\r\n\n").map(|lines| lines.len()), Ok(1));
        for wrong in ["orders", "orders,0", "orders,x,4", "orders,-1,4", ",0,4", "a,b,0,4,5", "\"orders,0,4"]
        {
            let error = read(&format!("orders,0,1\n{wrong}")).unwrap_err();
            assert!(error.starts_with(&format!("line 2: `{wrong}`")), "{error}");
        }
    }
}
