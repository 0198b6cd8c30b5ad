//! Why bytes could not be understood.

use std::fmt;

/// A frame that is no request, or no response, that we know.
///
/// As in Kafka there is no answer to such a frame: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No API that we offer has this number.
    #[error("api key {key} is unknown")]
    UnknownApi {
        /// The number in the frame.
        key: i16,
    },
    /// We offer the API, but not this version of it.
    #[error("version {version} of {api} is not supported")]
    UnsupportedVersion {
        /// The API's name.
        api: &'static str,
        /// The version in the frame.
        version: i16,
    },
    /// The header or the body does not follow the schema.
    #[error("{problem} at {place}")]
    Malformed {
        /// What is wrong.
        problem: Problem,
        /// Where it was noticed.
        place: Place,
    },
}

/// A text that cannot be written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {length} bytes does not fit into a request; the longest that does has {longest}")]
pub struct TextTooLong {
    /// How long it is.
    pub length: usize,
    /// How long it may be.
    pub longest: usize,
}

/// What is wrong with some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The frame ends before the value does.
    #[error("{wanted} bytes wanted where {left} are left")]
    Truncated {
        /// How many bytes the value needs.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// A null where the version allows none.
    #[error("null where a value is needed")]
    UnexpectedNull,
    /// More elements than the rest of the frame could hold.
    #[error("{count} elements claimed with {left} bytes left")]
    TooManyElements {
        /// How many are claimed.
        count: usize,
        /// How many bytes there are for them.
        left: usize,
    },
    /// The elements would take many times the memory of the frame.
    #[error("too many small elements for a frame of this size")]
    TooExpensive,
    /// Text that is longer than Kafka takes.
    #[error("a text of {length} bytes")]
    TextTooLong {
        /// How long it claims to be.
        length: usize,
    },
    /// A variable-length number that does not end.
    #[error("a number that does not end")]
    EndlessNumber,
}

/// A message, or a part of one, and a field in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The structure's name.
    pub structure: &'static str,
    /// The field's name.
    pub field: &'static str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.structure, self.field)
    }
}
