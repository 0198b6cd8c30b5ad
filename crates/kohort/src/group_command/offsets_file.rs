//! Offsets in a CSV file, as Kafka's tool reads and writes them.

use std::collections::BTreeMap;

use super::reset_plan::Planned;
use crate::output::name;

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
    let mut seen = Seen::default();
    // Some programs write a mark of the byte order in front.
    let mut rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut number = 1;
    while let Some(first) = rest.lines().next() {
        let after = if first.trim().is_empty() {
            rest.split_once('\n').map_or("", |(_, after)| after)
        } else {
            let (line, after) =
                split(rest).and_then(|(cells, after)| Some((line(cells)?, after))).ok_or_else(|| {
                    format!(
                        "line {number}: `{first}` is neither TOPIC,PARTITION,OFFSET nor \
                         GROUP,TOPIC,PARTITION,OFFSET"
                    )
                })?;
            if let Some(earlier) = seen.add(&line, number) {
                let Line { topic, partition, .. } = line;
                return Err(format!(
                    "line {number}: partition {partition} of topic {} has an offset in line {earlier} already",
                    name(&topic)
                ));
            }
            lines.push(line);
            after
        };
        number += rest[..rest.len() - after.len()].matches('\n').count();
        rest = after;
    }
    Ok(lines)
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Where in a file each partition has been seen first. A line without a group may be meant for any.
#[derive(Default)]
struct Seen {
    of_groups: BTreeMap<(Option<String>, String, i32), usize>,
    of_any: BTreeMap<(String, i32), usize>,
}

impl Seen {
    /// Remembers a line, or tells which one has the same partition.
    fn add(&mut self, line: &Line, number: usize) -> Option<usize> {
        let key = (line.topic.clone(), line.partition);
        let of = |group: Option<String>| (group, line.topic.clone(), line.partition);
        let earlier = match &line.group {
            None => self.of_any.get(&key),
            Some(group) => {
                self.of_groups.get(&of(Some(group.clone()))).or_else(|| self.of_groups.get(&of(None)))
            }
        };
        if let Some(earlier) = earlier {
            return Some(*earlier);
        }
        self.of_groups.insert(of(line.group.clone()), number);
        self.of_any.entry(key).or_insert(number);
        None
    }
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

/// The cells of the first line, and what comes after it. A cell in quotes may hold commas, line breaks, and quotes
/// written twice; one without loses the spaces around it.
fn split(text: &str) -> Option<(Vec<String>, &str)> {
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let (cell, after) = match rest.trim_start_matches([' ', '\t']).strip_prefix('"') {
            Some(quoted) => {
                let (cell, after) = quoted_cell(quoted)?;
                (cell, after.trim_start_matches([' ', '\t', '\r']))
            }
            None => {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.chars().next() {
            Some(',') => rest = &after[1..],
            Some('\n') => return Some((cells, &after[1..])),
            Some(_) => return None,
            None => return Some((cells, after)),
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
    if text.contains([',', '"', '\n', '\r', BYTE_ORDER_MARK]) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_partition_has_one_offset() {
        let error = |text: &str| read(text).unwrap_err();
        let twice = "line 3: partition 0 of topic orders has an offset in line 1 already";
        assert_eq!(error("orders,0,1\norders,1,1\norders,0,1\n"), twice);
        assert_eq!(error("a,orders,0,1\nb,orders,0,1\na,orders,0,2\n"), twice);
        assert_eq!(error("a,orders,0,1\n\norders,0,2\n"), twice, "the group may be a");
        assert_eq!(error("orders,0,1\n\na,orders,0,2\n"), twice);
        assert_eq!(read("a,orders,0,1\nb,orders,0,1\n").map(|lines| lines.len()), Ok(2));
    }

    #[test]
    fn what_other_programs_put_around_cells_is_left_out() {
        let plain = read("a b,orders,0,4\na b,orders,1,5\n");
        assert_eq!(read("\u{feff} a b , orders ,0, 4\r\n \"a b\" ,\torders,1,5"), plain);
    }

    #[test]
    fn lines_are_counted_also_within_names() {
        let error = read("\"a\r\nb\",orders,0,1\n\norders").unwrap_err();
        assert!(error.starts_with("line 4: `orders`"), "{error}");
        let error = read("orders,0,1\n\"a,orders,1,1\nb,orders,2,1\n").unwrap_err();
        assert!(error.starts_with("line 2: `\"a,orders,1,1`"), "{error}");
    }

    proptest! {
        #[test]
        fn names_of_any_kind_read_back(
            groups in prop::collection::btree_set("[ab,\"\n\r\t \u{feff}ü]{0,6}", 1..4),
            topic in "[ab,\"\n\r\t \u{feff}ü]{1,6}",
        ) {
            let plan = [planned(&topic, 0, 4), planned(&topic, 1, 0)];
            let text = write(groups.iter().map(|group| (group.as_str(), &plan[..])), true);
            let expected: Vec<Line> = groups
                .iter()
                .flat_map(|group| {
                    plan.iter().map(|planned| Line {
                        group: Some(group.clone()),
                        topic: topic.clone(),
                        partition: planned.partition,
                        offset: planned.new_offset,
                    })
                })
                .collect();
            prop_assert_eq!(read(&text), Ok(expected));
        }
    }
}
