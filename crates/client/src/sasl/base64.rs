//! Base64 (RFC 4648) as SCRAM writes it: the usual alphabet, padded.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for position in 0..4 {
            if position <= chunk.len() {
                text.push(char::from(ALPHABET[((bits >> (18 - 6 * position)) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The bytes that [`encode`] would write as exactly this text, if there are any.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for digits in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits: u32 = 0;
        for (position, digit) in digits.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == digit)?;
            bits |= u32::try_from(value).ok()? << (18 - 6 * position);
        }
        bytes.extend(&bits.to_be_bytes()[1..][..digits.len() * 6 / 8]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_those_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn what_nobody_would_write_is_refused() {
        for text in
            ["Z", "Zg", "Zg=", "Zg===", "Zh==", "=", "Z=g=", "Zm9v=", "Zm 9", "Zm8=Zm8=", "Zmé=", "-_8="]
        {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_way_there_and_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
