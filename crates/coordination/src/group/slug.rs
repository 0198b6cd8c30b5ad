//! A group's name in a form that fits a path, and the locator made of it.

use std::fmt;

use crate::ids::GroupId;
use crate::limits::SLUG_MAX;

/// A group's name in a form that fits a path, a shell and a table.
///
/// A slug is made of `a` to `z`, `0` to `9`, `.`, `_` and `-`, begins and ends with a letter or a digit, and has at most
/// [`SLUG_MAX`] characters. [`Slug::sanitize`] makes one by these rules:
///
/// 1. A name that already is a slug stays as it is.
/// 2. Any other name is changed: `A` to `Z` become small; every run of other characters becomes one `-`; what is no
///    letter or digit is taken off both ends; a name of which nothing is left becomes `group`.
/// 3. A changed name then gets `~` and the last 12 characters of the group's id, and is cut in front of them if that
///    is too long. Many names can change into the same one; the id keeps them apart. Since no name that stays as it is
///    has a `~`, a changed one never meets it either.
///
/// So a group's slug is the same for as long as the group exists, and two groups of an organisation never share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slug(Box<str>);

/// How many characters of the id are taken: 60 random bits.
const SUFFIX: usize = 12;

impl Slug {
    /// The slug of the group with this name and id.
    pub fn sanitize(name: &str, id: GroupId) -> Self {
        if is_slug(name) {
            return Self(name.into());
        }
        let mut slug = String::new();
        for character in name.chars().map(|character| character.to_ascii_lowercase()) {
            // Longer than this it is cut anyway.
            if slug.len() > SLUG_MAX {
                break;
            }
            if is_plain(character) {
                slug.push(character);
            } else if !slug.ends_with('-') {
                slug.push('-');
            }
        }
        let room = SLUG_MAX - SUFFIX - 1;
        let trimmed = slug.trim_start_matches(is_mark);
        let cut = trimmed[..trimmed.len().min(room)].trim_end_matches(is_mark);
        let id = id.to_string();
        let suffix = &id[id.len() - SUFFIX..];
        let base = if cut.is_empty() { "group" } else { cut };
        Self(format!("{base}~{suffix}").into())
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The group's locator: `<org>/consumer-groups/<slug>`. `org` is the organisation's name.
    pub fn rrl(&self, org: &str) -> String {
        format!("{org}/consumer-groups/{self}")
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_slug(name: &str) -> bool {
    let ends = |end: Option<char>| end.is_some_and(|end| is_plain(end) && !is_mark(end));
    name.len() <= SLUG_MAX
        && name.chars().all(is_plain)
        && ends(name.chars().next())
        && ends(name.chars().next_back())
}

fn is_plain(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9') || is_mark(character)
}

fn is_mark(character: char) -> bool {
    matches!(character, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: GroupId = GroupId::from_u128(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0);

    fn slug(name: &str) -> String {
        Slug::sanitize(name, ID).to_string()
    }

    #[test]
    fn a_name_that_is_a_slug_stays_as_it_is() {
        for name in ["orders", "a", "7", "my-group", "team.orders_v2", "a..b", &"x".repeat(SLUG_MAX)] {
            assert_eq!(slug(name), name);
        }
    }

    #[test]
    fn any_other_name_is_changed_and_marked_by_the_id() {
        for (name, expected) in [
            ("", "group"),
            ("Orders", "orders"),
            ("my group", "my-group"),
            ("my / group", "my-group"),
            ("été", "t"),
            ("група", "group"),
            ("🦀", "group"),
            (".", "group"),
            ("..", "group"),
            ("_hidden", "hidden"),
            ("trailing-", "trailing"),
            ("a~b", "a-b"),
            ("org/consumer-groups/x", "org-consumer-groups-x"),
            ("a\0b\n", "a-b"),
        ] {
            assert_eq!(slug(name), format!("{expected}~4d2pf2dbsqqg"), "{name:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_in_front_of_the_id() {
        let cut = slug(&"Ab".repeat(10_000));
        assert_eq!(cut.len(), SLUG_MAX);
        assert!(cut.starts_with("abab") && cut.ends_with("~4d2pf2dbsqqg"), "{cut}");
        // A cut never ends in a mark.
        let marks = slug(&format!("{}------B", "a".repeat(SLUG_MAX - SUFFIX - 3)));
        assert_eq!(marks, format!("{}~4d2pf2dbsqqg", "a".repeat(SLUG_MAX - SUFFIX - 3)));
    }

    #[test]
    fn names_that_become_the_same_are_kept_apart_by_their_ids() {
        let other = GroupId::from_u128(ID.as_u128() + 1);
        assert_ne!(Slug::sanitize("Orders", ID), Slug::sanitize("ORDERS", other));
        // Not even a group that takes the other's slug for its name gets the same.
        let first = Slug::sanitize("Orders", ID);
        assert_ne!(Slug::sanitize(first.as_str(), other), first);
    }

    #[test]
    fn a_locator_names_the_organisation_and_the_slug() {
        assert_eq!(Slug::sanitize("orders", ID).rrl("default"), "default/consumer-groups/orders");
        assert_eq!(Slug::sanitize("a/b", ID).rrl("default"), "default/consumer-groups/a-b~4d2pf2dbsqqg");
    }

    proptest! {
        #[test]
        fn every_name_has_a_slug_that_fits_a_path(name in proptest::collection::vec(any::<char>(), 0..200)) {
            let name: String = name.into_iter().collect();
            let slug = slug(&name);
            prop_assert!(!slug.is_empty() && slug.len() <= SLUG_MAX);
            let base = slug.split('~').next().unwrap();
            prop_assert!(is_slug(base), "{slug}");
            prop_assert_eq!(slug == name, is_slug(&name));
        }
    }
}
