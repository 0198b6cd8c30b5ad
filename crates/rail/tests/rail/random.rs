//! Any value of any type that can be read by serde, from a seed.
//!
//! So every op and reply is tested, also those and those fields that are added later.

use std::fmt;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::de::value::U32Deserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor,
};

/// A value of `T` that follows from `seed`.
pub(crate) fn random<T: DeserializeOwned>(seed: u64) -> T {
    from(Source { random: StdRng::seed_from_u64(seed), depth: 0, variant: None })
}

/// A value of this variant of the enum `T`.
pub(crate) fn random_variant<T: DeserializeOwned>(variant: usize, seed: u64) -> T {
    from(Source { random: StdRng::seed_from_u64(seed), depth: 0, variant: Some(variant) })
}

fn from<T: DeserializeOwned>(mut source: Source) -> T {
    T::deserialize(&mut source).expect("every value that is asked for is given")
}

struct Source {
    random: StdRng,
    depth: usize,
    /// Which variant the outermost enum gets.
    variant: Option<usize>,
}

#[derive(Debug)]
struct Impossible(String);

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Impossible {}

impl de::Error for Impossible {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl Source {
    /// Lists get short the deeper they are.
    fn length(&mut self) -> usize {
        self.random.random_range(0..=4_usize.saturating_sub(self.depth))
    }

    fn text(&mut self) -> String {
        let length = self.random.random_range(0..12);
        (0..length).map(|_| char::from(b"abcxyz-_.9"[self.random.random_range(0..10)])).collect()
    }

    /// Small numbers, large ones and the ends.
    fn number(&mut self, min: i64, max: i64) -> i64 {
        match self.random.random_range(0..6) {
            0 => min,
            1 => max,
            2 | 3 => self.random.random_range(min.max(-2)..=max.min(100)),
            _ => self.random.random_range(min..=max),
        }
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
            let number = self.number(i64::try_from(<$type>::MIN).unwrap_or(i64::MIN), i64::try_from(<$type>::MAX).unwrap_or(i64::MAX));
            visitor.$visit(<$type>::try_from(number).unwrap_or_default())
        })*
    };
}

impl<'de> de::Deserializer<'de> for &mut Source {
    type Error = Impossible;

    numbers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u64 visit_u64 u64,
    }

    /// Also the nanoseconds of a duration, which are less than a second's.
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_u32(self.random.random_range(0..1_000_000_000))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_bool(self.random.random())
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        let length = self.random.random_range(0..20);
        visitor.visit_byte_buf((0..length).map(|_| self.random.random()).collect())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        if self.random.random() { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Impossible> {
        let left = self.length();
        self.depth += 1;
        let value = visitor.visit_seq(Elements { source: self, left });
        self.depth -= 1;
        value
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { source: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { source: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_enum(Variant { variants: variants.len(), source: self })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Impossible> {
        Err(de::Error::custom("no type of ours asks for anything"))
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char map unit_struct tuple_struct identifier ignored_any
    }
}

struct Elements<'a> {
    source: &'a mut Source,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Impossible;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Impossible> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.source).map(Some)
    }
}

struct Variant<'a> {
    variants: usize,
    source: &'a mut Source,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Impossible;
    type Variant = &'a mut Source;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, &'a mut Source), Impossible> {
        let any = self.source.random.random_range(0..self.variants);
        let chosen = self.source.variant.take().unwrap_or(any);
        let chosen: U32Deserializer<Impossible> =
            u32::try_from(chosen).expect("few variants").into_deserializer();
        Ok((seed.deserialize(chosen)?, self.source))
    }
}

impl<'de> VariantAccess<'de> for &mut Source {
    type Error = Impossible;

    fn unit_variant(self) -> Result<(), Impossible> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Impossible> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { source: self, left })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Impossible> {
        visitor.visit_seq(Elements { source: self, left: fields.len() })
    }
}
