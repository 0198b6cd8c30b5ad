//! Values of properties: their types, their limits, and how Kafka writes them.

use super::security::{parse_protocol_map, parse_super_users};
use crate::catalog::check_org_name;

/// The type of a property; the numbers are those of DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean = 1,
    /// Free text.
    String = 2,
    /// A 32-bit number.
    Int = 3,
    /// A 16-bit number.
    Short = 4,
    /// A 64-bit number.
    Long = 5,
    /// A floating point number.
    Double = 6,
    /// Texts separated by commas.
    List = 7,
    /// The name of a Java class; only ever shown.
    Class = 8,
    /// A secret, never shown.
    Password = 9,
}

impl Kind {
    /// The type's number in DescribeConfigs.
    pub fn number(self) -> i8 {
        self as i8
    }

    /// The type's name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        }
    }
}

/// What a value of the right type must fulfil besides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Check {
    /// Every value will do.
    Any,
    /// A number not below this.
    AtLeast(i64),
    /// A number from the first to the second, both included.
    Between(i64, i64),
    /// A floating point number from the first to the second, both included.
    BetweenDouble(f64, f64),
    /// A number from 1 to 9, or -1 for the codec's own choice.
    GzipLevel,
    /// A number that is -1 (no limit) or at least 1.
    PositiveOrUnlimited,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of these texts.
    ListOf(&'static [&'static str]),
    /// A text that is not empty.
    NotEmpty,
    /// `*`, or a list of `partition:broker` pairs.
    ThrottledReplicas,
    /// A file, as `file:///path`.
    FileUrl,
    /// The name of an organisation.
    OrgName,
    /// A list of `NAME:PROTOCOL` pairs.
    ProtocolMap,
    /// An IP address and a port.
    SocketAddress,
    /// `User:name` or `User:org/name`, separated by semicolons.
    SuperUsers,
}

/// Checks `value` for the property `name` and returns it as Kafka would write it back.
///
/// The error is the sentence that Kafka answers with.
pub(super) fn normalise(name: &str, kind: Kind, check: Check, value: &str) -> Result<String, String> {
    let trimmed = value.trim();
    let refuse = |why: &str| Err(format!("Invalid value {value} for configuration {name}: {why}"));
    let normal = match kind {
        Kind::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "true" => "true".to_owned(),
            "false" => "false".to_owned(),
            _ => return refuse("Expected value to be either true or false"),
        },
        Kind::Int => match trimmed.parse::<i32>() {
            Ok(number) => number.to_string(),
            Err(_) => return refuse("Not a number of type INT"),
        },
        Kind::Short => match trimmed.parse::<i16>() {
            Ok(number) => number.to_string(),
            Err(_) => return refuse("Not a number of type SHORT"),
        },
        Kind::Long => match trimmed.parse::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => return refuse("Not a number of type LONG"),
        },
        Kind::Double => match trimmed.parse::<f64>() {
            Ok(number) => java_double(number),
            Err(_) => return refuse("Not a number of type DOUBLE"),
        },
        Kind::List => items(trimmed).collect::<Vec<_>>().join(","),
        Kind::String | Kind::Class | Kind::Password => trimmed.to_owned(),
    };
    match broken_rule(name, check, &normal) {
        None => Ok(normal),
        Some(why) => Err(format!("Invalid value {} for configuration {name}: {why}", shown(check, &normal))),
    }
}

/// A floating point number as Java writes it: with a point, and with an exponent where it is large or small.
fn java_double(number: f64) -> String {
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) || !number.is_finite() {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// The items of a list, as Kafka splits them.
pub fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The part of a value that Kafka's message complains about.
fn shown(check: Check, normal: &str) -> String {
    match check {
        Check::ListOf(texts) => {
            items(normal).find(|item| !texts.contains(item)).unwrap_or_default().to_owned()
        }
        // A list stands in brackets, as Java prints it.
        Check::ThrottledReplicas => format!("[{}]", normal.replace(',', ", ")),
        _ => normal.to_owned(),
    }
}

fn broken_rule(name: &str, check: Check, normal: &str) -> Option<String> {
    // The type was checked before: what does not parse here belongs to a check that does not suit its type,
    // and the table's own test finds that.
    let number = normal.parse::<i64>().unwrap_or(i64::MIN);
    match check {
        Check::Any => None,
        Check::AtLeast(least) => (number < least).then(|| format!("Value must be at least {least}")),
        Check::Between(least, most) => {
            if number < least {
                Some(format!("Value must be at least {least}"))
            } else {
                (number > most).then(|| format!("Value must be no more than {most}"))
            }
        }
        Check::BetweenDouble(least, most) => {
            let number = normal.parse::<f64>().unwrap_or(f64::NAN);
            if number >= least && number <= most {
                None
            } else if number > most {
                Some(format!("Value must be no more than {most}"))
            } else {
                Some(format!("Value must be at least {least}"))
            }
        }
        Check::GzipLevel => (number != -1 && !(1..=9).contains(&number))
            .then(|| "Value must be between 1 and 9 or equal to -1".to_owned()),
        Check::PositiveOrUnlimited => {
            (number != -1 && number < 1).then(|| "Value must be -1 (unlimited) or at least 1".to_owned())
        }
        Check::OneOf(texts) => {
            (!texts.contains(&normal)).then(|| format!("String must be one of: {}", texts.join(", ")))
        }
        Check::ListOf(texts) => items(normal)
            .any(|item| !texts.contains(&item))
            .then(|| format!("String must be one of: {}", texts.join(", "))),
        Check::NotEmpty => normal.is_empty().then(|| "String must be non-empty".to_owned()),
        Check::FileUrl => {
            let is_file = normal.strip_prefix("file://").is_some_and(|path| path.starts_with('/'));
            (!is_file).then(|| "Value must be a file, as file:///path".to_owned())
        }
        Check::OrgName => check_org_name(normal).err().map(|error| error.to_string()),
        Check::ProtocolMap => parse_protocol_map(normal).err(),
        Check::SocketAddress => normal
            .parse::<std::net::SocketAddr>()
            .is_err()
            .then(|| "Value must be an IP address and a port, as 0.0.0.0:9643".to_owned()),
        Check::SuperUsers => parse_super_users(normal).err(),
        Check::ThrottledReplicas => {
            let pairs = items(normal).all(|item| {
                item.split_once(':').is_some_and(|(partition, broker)| {
                    partition.parse::<u32>().is_ok() && broker.parse::<u32>().is_ok()
                })
            });
            (normal != "*" && !pairs).then(|| {
                format!(
                    "{name} must be the literal '*' or a list of replicas in the following format: \
                     [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_back_as_kafka_writes_them() {
        for (kind, given, written) in [
            (Kind::Boolean, " TRUE ", "true"),
            (Kind::Int, "+7", "7"),
            (Kind::Long, "-1", "-1"),
            (Kind::Double, "1", "1.0"),
            (Kind::Double, "0.50", "0.5"),
            (Kind::Double, "10000000", "1.0E7"),
            (Kind::Double, "2147483647", "2.147483647E9"),
            (Kind::Double, "0.0001", "1.0E-4"),
            (Kind::Double, "1.7976931348623157E308", "1.7976931348623157E308"),
            (Kind::List, " compact , delete", "compact,delete"),
            (Kind::String, " a b ", "a b"),
        ] {
            assert_eq!(normalise("x", kind, Check::Any, given).as_deref(), Ok(written));
        }
    }

    #[test]
    fn refusals_read_as_kafkas_do() {
        for (kind, check, given, why) in [
            (
                Kind::Boolean,
                Check::Any,
                "yes",
                "yes for configuration x: Expected value to be either true or false",
            ),
            (Kind::Int, Check::Any, "2147483648", "2147483648 for configuration x: Not a number of type INT"),
            (Kind::Long, Check::Any, " ", "  for configuration x: Not a number of type LONG"),
            (Kind::Long, Check::Any, "ten", "ten for configuration x: Not a number of type LONG"),
            (Kind::Int, Check::AtLeast(1), "0", "0 for configuration x: Value must be at least 1"),
            (Kind::Int, Check::Between(1, 9), "10", "10 for configuration x: Value must be no more than 9"),
            (
                Kind::Double,
                Check::BetweenDouble(0.0, 1.0),
                "1.5",
                "1.5 for configuration x: Value must be no more than 1",
            ),
            (
                Kind::Double,
                Check::BetweenDouble(0.0, 1.0),
                "NaN",
                "NaN for configuration x: Value must be at least 0",
            ),
            (
                Kind::String,
                Check::OneOf(&["a", "b"]),
                "c",
                "c for configuration x: String must be one of: a, b",
            ),
            (
                Kind::List,
                Check::ListOf(&["a", "b"]),
                "a,c",
                "c for configuration x: String must be one of: a, b",
            ),
        ] {
            assert_eq!(normalise("x", kind, check, given), Err(format!("Invalid value {why}")));
        }
    }

    #[test]
    fn throttled_replicas_are_pairs_or_a_star() {
        for good in ["", "*", "0:1", "0:1, 1:2"] {
            assert!(normalise("x", Kind::List, Check::ThrottledReplicas, good).is_ok(), "{good}");
        }
        for bad in ["0", "a:b", "0:1,x"] {
            assert!(normalise("x", Kind::List, Check::ThrottledReplicas, bad).is_err(), "{bad}");
        }
    }
}
