//! Just enough of DER (X.690) to find a name in a certificate.

/// The tags that are looked for.
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// A value within the bytes it was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// Tag, length and content.
    pub(super) whole: &'a [u8],
}

/// Reads one value after another.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value, if one is there in full. Its length must be written in as few bytes as can be, and tags of
    /// several bytes do not occur in certificates.
    pub(super) fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                let length = digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit));
                let shortest = digits[0] != 0 && length >= 0x80;
                (shortest.then_some(length)?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        let (whole, _) = self.0.split_at(self.0.len() - rest.len());
        self.0 = rest;
        Some(Element { tag, content, whole })
    }

    /// The content of the next value, if it has this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|element| element.tag == tag).map(|element| element.content)
    }
}

/// An object identifier in dots: `2.5.4.3`.
pub(super) fn dotted(identifier: &[u8]) -> Option<String> {
    if identifier.last()? & 0x80 != 0 {
        return None;
    }
    let mut text = String::new();
    for digits in identifier.split_inclusive(|byte| byte & 0x80 == 0) {
        // 128 bits are enough for a UUID, which is the largest number that is in use.
        let shortest = digits[0] != 0x80 && digits.len() <= 18;
        let digits = shortest.then_some(digits)?;
        let number = digits.iter().fold(0_u128, |number, digit| (number << 7) | u128::from(digit & 0x7f));
        if text.is_empty() {
            let root = (number / 40).min(2);
            text = format!("{root}.{}", number - root * 40);
        } else {
            text.push_str(&format!(".{number}"));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_read_with_short_and_long_lengths() {
        let long = [&[0x0c, 0x81, 0x80][..], &[b'x'; 0x80]].concat();
        let mut reader = Reader::new(&long);
        assert_eq!(reader.expect(0x0c), Some(&[b'x'; 0x80][..]));
        assert!(reader.is_at_end());
        let mut reader = Reader::new(&[2, 1, 5, 0x30, 0]);
        assert_eq!(reader.next(), Some(Element { tag: 2, content: &[5], whole: &[2, 1, 5] }));
        assert_eq!(reader.expect(SEQUENCE), Some(&[][..]));
        assert_eq!(reader.next(), None);
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bytes in [
            &[][..],
            &[2],
            &[2, 1],
            &[2, 0x80, 0, 0],
            &[2, 0x81],
            &[2, 0x81, 1, 5],
            &[2, 0x82, 0, 0x80],
            &[2, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[2, 0xff],
            &[0x1f, 1, 5],
        ] {
            assert_eq!(Reader::new(bytes).next(), None, "{bytes:x?}");
        }
    }

    #[test]
    fn identifiers_are_written_in_dots() {
        assert_eq!(dotted(&[0x55, 4, 3]).as_deref(), Some("2.5.4.3"));
        assert_eq!(
            dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]).as_deref(),
            Some("1.2.840.113549.1.9.1")
        );
        assert_eq!(dotted(&[0x88, 0x37]).as_deref(), Some("2.999"));
        assert_eq!(dotted(&[0]).as_deref(), Some("0.0"));
        let large = [&[0x69][..], &[0xff; 17], &[0x7f]].concat();
        assert_eq!(dotted(&large), Some(format!("2.25.{}", (1_u128 << 126) - 1)));
        let too_large = [&[0x69][..], &[0xff; 18], &[0x7f]].concat();
        for identifier in [&[][..], &[0x80], &[0x80, 1], &[0x55, 0x84], &too_large] {
            assert_eq!(dotted(identifier), None, "{identifier:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while let Some(element) = reader.next() {
                let _ = dotted(element.content);
            }
        }
    }
}
