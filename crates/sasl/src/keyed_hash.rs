//! HMAC (RFC 2104) and the derivation of keys from passwords that SCRAM uses (`Hi` in RFC 5802, which is PBKDF2 with
//! one block).

use std::hint::black_box;

use sha2::{Digest, Sha256, Sha512};

/// A hash that SCRAM is defined for.
pub(crate) trait Hash: Digest + Clone {
    /// How many bytes it takes at a time.
    const BLOCK: usize;
}

impl Hash for Sha256 {
    const BLOCK: usize = 64;
}

impl Hash for Sha512 {
    const BLOCK: usize = 128;
}

/// The hash of all `parts` in a row.
pub(crate) fn hash<H: Hash>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = H::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().to_vec()
}

/// Whether two secrets are equal. All bytes are looked at, so that the time taken does not tell how many are right.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |sum, (left, right)| sum | (left ^ right));
    left.len() == right.len() && black_box(differences) == 0
}

/// A key that is ready to be used many times.
#[derive(Clone)]
pub(crate) struct Hmac<H> {
    inner: H,
    outer: H,
}

impl<H: Hash> Hmac<H> {
    /// Prepares a key of any length.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut block = if key.len() > H::BLOCK { hash::<H>(&[key]) } else { key.to_vec() };
        block.resize(H::BLOCK, 0);
        let padded = |pad: u8| {
            let mut state = H::new();
            state.update(block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>());
            state
        };
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The code of all `parts` in a row.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.update(part);
        }
        let mut outer = self.outer.clone();
        outer.update(inner.finalize());
        outer.finalize().to_vec()
    }
}

/// The key that `password` and `salt` give after `iterations`; it takes the more time the more there are.
pub(crate) fn salted_password<H: Hash>(password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
    let hmac = Hmac::<H>::new(password);
    let mut last = hmac.code(&[salt, &1_u32.to_be_bytes()]);
    let mut key = last.clone();
    for _ in 1..iterations {
        last = hmac.code(&[&last]);
        for (byte, other) in key.iter_mut().zip(&last) {
            *byte ^= other;
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn codes(key: &[u8], message: &[u8]) -> (String, String) {
        let short = Hmac::<Sha256>::new(key).code(&[message]);
        let long = Hmac::<Sha512>::new(key).code(&[message]);
        (hex(&short), hex(&long))
    }

    #[test]
    fn only_equal_bytes_are_the_same() {
        assert!(same(b"", b""));
        assert!(same(b"abc", b"abc"));
        for other in ["", "ab", "abcd", "abd", "bbc"] {
            assert!(!same(b"abc", other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let (short, long) = codes(&[0x0b; 20], b"Hi There");
        assert_eq!(short, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert_eq!(
            long,
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"
        );
        let (short, long) = codes(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(short, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_eq!(
            long,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        );
        // A key longer than a block of either hash.
        let (short, long) = codes(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(short, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        assert_eq!(
            long,
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
        );
    }

    #[test]
    fn keys_are_those_that_pbkdf2_derives() {
        // The first blocks of those in RFC 7914.
        let short = |password: &str, salt: &str, iterations| {
            hex(&salted_password::<Sha256>(password.as_bytes(), salt.as_bytes(), iterations))
        };
        assert_eq!(
            short("passwd", "salt", 1),
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
        );
        assert_eq!(
            short("Password", "NaCl", 80_000),
            "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"
        );
        // No RFC has any for SHA-512; these are what Python's own implementation derives.
        let long = |iterations| hex(&salted_password::<Sha512>(b"password", b"salt", iterations));
        assert_eq!(
            long(1),
            "867f70cf1ade02cff3752599a3a53dc4af34c7a669815ae5d513554e1c8cf252\
             c02d470a285a0501bad999bfe943c08f050235d7d68b1da55e63f73b60a57fce"
        );
        assert_eq!(
            long(4096),
            "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5\
             143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5"
        );
    }
}
