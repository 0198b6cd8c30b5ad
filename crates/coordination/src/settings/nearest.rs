//! The known name that a mistyped one most likely meant.

/// The one of `known` that is nearest to `given`, if any is near enough to be worth offering.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| (distance(&given, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(given.len()) / 3 + 1)
        .map(|(_, name)| name)
}

/// How many characters must be added, dropped, changed or swapped with their neighbour to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(LONGEST_NAME).collect();
    let to: Vec<char> = to.chars().take(LONGEST_NAME).collect();
    let mut before = Vec::new();
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for (row, &a) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &b) in to.iter().enumerate() {
            let mut cost = (previous[column] + usize::from(a != b))
                .min(previous[column + 1] + 1)
                .min(current[column] + 1);
            if row > 0 && column > 0 && a == to[column - 1] && from[row - 1] == b {
                let swapped: &Vec<usize> = &before;
                cost = cost.min(swapped[column - 1] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().unwrap_or(0)
}

/// No property is nearly as long; a longer name is not worth the square of its length.
const LONGEST_NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (from, to, edits) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("abc", "abc", 0),
        ] {
            assert_eq!(distance(from, to), edits, "{from} to {to}");
        }
    }

    #[test]
    fn a_far_name_is_not_offered() {
        let known = ["num.partitions", "message.max.bytes"];
        assert_eq!(nearest("num.partition", known), Some("num.partitions"));
        assert_eq!(nearest("NUM.PARTITIONS", known), Some("num.partitions"));
        assert_eq!(nearest("zzz", known), None);
    }
}
