//! Base64 (RFC 4648): as SCRAM writes it, with the usual alphabet and padded, and as tokens do, fit for URLs and not padded.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes as text.
pub fn encode(bytes: &[u8]) -> String {
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
pub fn decode(text: &str) -> Option<Vec<u8>> {
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

/// The bytes as text that fits into a URL: another alphabet, and no padding.
pub fn encode_url(bytes: &[u8]) -> String {
    encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// The bytes that [`encode_url`] would write as exactly this text, if there are any.
pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    if text.contains(['+', '/', '=']) {
        return None;
    }
    let mut usual = text.replace('-', "+").replace('_', "/");
    usual.extend(std::iter::repeat_n('=', (4 - usual.len() % 4) % 4));
    decode(&usual)
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

    #[test]
    fn texts_for_urls_have_their_own_alphabet_and_no_padding() {
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode_url("-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!(decode_url("").as_deref(), Some(&[][..]));
        for text in ["Z", "Zh", "Zg==", "+/8", "-_8=", "Zm9", "Zm 9", "Zmé"] {
            assert_eq!(decode_url(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_way_through_a_url(bytes: Vec<u8>) {
            prop_assert_eq!(decode_url(&encode_url(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_from_a_url_is_read_or_refused(text in "[A-Za-z0-9_=+/-]{0,24}") {
            if let Some(bytes) = decode_url(&text) {
                prop_assert_eq!(encode_url(&bytes), text);
            }
        }

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
