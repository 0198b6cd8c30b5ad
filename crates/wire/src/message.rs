//! The language in which messages are described.
//!
//! A message is written down once, as a structure whose fields say in which versions they exist:
//!
//! ```text
//! message! {
//!     /// What the structure is.
//!     pub struct CreateTopicsRequest {
//!         topics: Vec<CreatableTopic> [0+],
//!         timeout_ms: i32 [0+] = 60_000,
//!         validate_only: bool [1+],
//!     }
//! }
//! ```
//!
//! In brackets stand, in this order:
//!
//! - the versions that have the field, written as in Kafka's own schemas: `3+`, `0-12`, `18`;
//! - `null 5+`: the versions in which it may be null; the type is then an `Option`;
//! - `tag 1`: the field is a tagged one (KIP-482) with that number. It is written only when it differs
//!   from its default. Tagged fields of a structure are listed by rising number.
//!
//! After `=` stands the value of the field when a version does not have it or leaves it out; without one
//! it is the type's default. A type is one of those in [`field`](crate::field) or another structure.
//!
//! From this the macro makes the structure, its `Default`, and reading and writing for every version.
//! Whether a version is flexible (compact lengths, tagged fields) is the same for all parts of a message;
//! that, the API's number and the versions we speak stand in the one [`table`](crate::table).

use bytes::Bytes;

use crate::error::DecodeError;
use crate::field::{At, Field};
use crate::reader::Reader;
use crate::table::ApiKey;
use crate::writer::Writer;

/// In which versions a field exists, can be null, and how it is written.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    first: i16,
    last: i16,
    first_null: i16,
    last_null: i16,
    tag: Option<u32>,
}

impl Spec {
    pub(crate) const fn versions(first: i16, last: i16) -> Self {
        Self { first, last, first_null: i16::MAX, last_null: i16::MIN, tag: None }
    }

    pub(crate) const fn null(self, first_null: i16, last_null: i16) -> Self {
        Self { first_null, last_null, ..self }
    }

    pub(crate) const fn tag(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Whether a message of this version can hold the field at all.
    #[inline]
    pub(crate) const fn exists(self, at: At) -> bool {
        self.first <= at.version && at.version <= self.last && (self.tag.is_none() || at.flexible)
    }

    /// Whether the field stands in its place among the others.
    #[inline]
    pub(crate) const fn in_order(self, at: At) -> bool {
        self.tag.is_none() && self.exists(at)
    }

    /// Whether the field stands behind the others under `tag`.
    #[inline]
    pub(crate) fn has_tag(self, tag: u32, at: At) -> bool {
        self.tag == Some(tag) && self.exists(at)
    }

    /// The number under which the field stands behind the others, if it does.
    #[inline]
    pub(crate) const fn tag_at(self, at: At) -> Option<u32> {
        if self.exists(at) { self.tag } else { None }
    }

    /// How the field's value is written.
    #[inline]
    pub(crate) const fn at(self, at: At) -> At {
        At { nullable: self.first_null <= at.version && at.version <= self.last_null, ..at }
    }

    /// The fewest bytes the field takes, given the fewest its type takes.
    pub(crate) const fn smallest(self, of_type: usize) -> usize {
        let always = self.first == 0 && self.last == i16::MAX && self.tag.is_none();
        if always { of_type } else { 0 }
    }
}

/// Turns what stands in a field's brackets into a [`Spec`].
macro_rules! spec {
    (@more $spec:expr;) => { $spec };
    (@more $spec:expr; , null $first:literal + $($more:tt)*) => {
        $crate::message::spec!(@more $spec.null($first, i16::MAX); $($more)*)
    };
    (@more $spec:expr; , null $first:literal - $last:literal $($more:tt)*) => {
        $crate::message::spec!(@more $spec.null($first, $last); $($more)*)
    };
    (@more $spec:expr; , tag $tag:literal $($more:tt)*) => {
        $crate::message::spec!(@more $spec.tag($tag); $($more)*)
    };
    ($first:literal + $($more:tt)*) => {
        $crate::message::spec!(@more $crate::message::Spec::versions($first, i16::MAX); $($more)*)
    };
    ($first:literal - $last:literal $($more:tt)*) => {
        $crate::message::spec!(@more $crate::message::Spec::versions($first, $last); $($more)*)
    };
    ($only:literal $($more:tt)*) => {
        $crate::message::spec!(@more $crate::message::Spec::versions($only, $only); $($more)*)
    };
}
pub(crate) use spec;

/// The value of a field that is not there.
macro_rules! absent {
    ($type:ty) => {
        <$type as Default>::default()
    };
    ($type:ty = $value:expr) => {
        $value
    };
}
pub(crate) use absent;

/// Describes structures; see the [module](self).
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty [$($spec:tt)*] $(= $absent:expr)? ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[doc = concat!("Versions `", stringify!($($spec)*), "`.")]
                pub $field: $type,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::message::absent!($type $(= $absent)?),)* }
            }
        }

        impl $crate::field::Field for $name {
            const SMALLEST: usize = 0 $(+ {
                const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                SPEC.smallest(<$type as $crate::field::Field>::SMALLEST)
            })*;

            #[inline]
            fn read(
                reader: &mut $crate::reader::Reader,
                at: $crate::field::At,
            ) -> Result<Self, $crate::error::Problem> {
                let mut value = Self {
                    $($field: {
                        const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                        if SPEC.in_order(at) {
                            <$type as $crate::field::Field>::read(reader, SPEC.at(at)).map_err(|problem| {
                                reader.locate(problem, stringify!($name), stringify!($field))
                            })?
                        } else {
                            $crate::message::absent!($type $(= $absent)?)
                        }
                    },)*
                };
                if at.flexible {
                    reader.tagged(|tag, reader| {
                        $({
                            const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                            if SPEC.has_tag(tag, at) {
                                value.$field = <$type as $crate::field::Field>::read(reader, SPEC.at(at))
                                    .map_err(|problem| {
                                        reader.locate(problem, stringify!($name), stringify!($field))
                                    })?;
                            }
                        })*
                        Ok(())
                    })?;
                }
                Ok(value)
            }

            #[inline]
            fn write(&self, writer: &mut $crate::writer::Writer, at: $crate::field::At) {
                $({
                    const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                    if SPEC.in_order(at) {
                        $crate::field::Field::write(&self.$field, writer, SPEC.at(at));
                    }
                })*
                if at.flexible {
                    let mut tagged = 0;
                    $({
                        const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                        if SPEC.tag_at(at).is_some()
                            && self.$field != $crate::message::absent!($type $(= $absent)?)
                        {
                            tagged += 1;
                        }
                    })*
                    writer.begin_tags(tagged);
                    if tagged > 0 {
                        $({
                            const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                            if let Some(tag) = SPEC.tag_at(at)
                                && self.$field != $crate::message::absent!($type $(= $absent)?)
                            {
                                writer.tagged(tag, |writer| {
                                    $crate::field::Field::write(&self.$field, writer, SPEC.at(at));
                                });
                            }
                        })*
                    }
                    writer.end_tags();
                }
            }

            #[cfg(test)]
            fn arbitrary(entropy: &mut $crate::arbitrary::Entropy<'_>, at: $crate::field::At) -> Self {
                Self {
                    $($field: {
                        const SPEC: $crate::message::Spec = $crate::message::spec!($($spec)*);
                        if SPEC.exists(at) {
                            <$type as $crate::field::Field>::arbitrary(entropy, SPEC.at(at))
                        } else {
                            $crate::message::absent!($type $(= $absent)?)
                        }
                    },)*
                }
            }
        }
    )*};
}
pub(crate) use message;

/// The body of a request or of a response.
pub trait Message: Field + Clone + Default + PartialEq + std::fmt::Debug {
    /// The API it belongs to.
    const API: ApiKey;

    /// The message's name in Kafka's schemas.
    const NAME: &'static str;

    /// Reads a body of the given version. What stands behind it in the frame is not looked at: a live
    /// Kafka ignores it too.
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        Self::decode_from(&mut reader, version)
    }

    /// Reads a body where `reader` stands.
    fn decode_from(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::API.versions().contains(&version) {
            return Err(DecodeError::UnsupportedVersion { api: Self::API.name(), version });
        }
        Self::read(reader, Self::API.at(version)).map_err(|problem| reader.malformed(problem, Self::NAME))
    }

    /// Writes a body of the given version. Fields that the version does not have are left out.
    fn encode(&self, writer: &mut Writer, version: i16) {
        self.write(writer, Self::API.at(version));
    }
}

/// The body of a request, which knows what it is answered with.
pub trait RequestMessage: Message {
    /// The body of the answer.
    type Response: Message;
}
