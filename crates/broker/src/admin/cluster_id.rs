//! Ids of clusters, as Kafka writes them.

/// The id made of these bits: 22 characters of base64 for URLs.
pub(super) fn mint(bits: u128) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // The version and variant of a random UUID, whose text Kafka's id is.
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let letter = |position: u32| {
        // 22 letters have room for 132 bits; the last four are zero.
        let index = if position < 21 { bits >> (122 - 6 * position) } else { bits << 4 } & 0x3f;
        char::from(LETTERS[usize::try_from(index).unwrap_or(0)])
    };
    let id: String = (0..22).map(letter).collect();
    // An id that begins so looks like a flag to command lines; Kafka avoids it too.
    match id.strip_prefix('-') {
        Some(rest) => format!("A{rest}"),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_base64_of_a_random_uuid() {
        assert_eq!(mint(0), "AAAAAAAAQACAAAAAAAAAAA");
        assert_eq!(mint(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef), "ASNFZ4mrTe-BI0VniavN7w");
        assert_eq!(mint(u128::MAX), "________T_-__________w");
        for bits in [1, 0xf8 << 120, 0xfb << 120] {
            let id = mint(bits);
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-'), "{id}");
        }
    }
}
