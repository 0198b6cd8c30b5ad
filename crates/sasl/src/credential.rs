//! What is kept of a password: enough to recognise whoever knows it, too little to log in with.

use std::fmt;

use sha2::{Sha256, Sha512};

use crate::keyed_hash::{Hash, Hmac, hash, salted_password, same};
use crate::limits::SALT_BYTES;
use crate::scram::Variant;

/// What a server keeps of a password (RFC 5802, section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The hash that it was made with.
    pub variant: Variant,
    /// What keeps equal passwords from looking equal.
    pub salt: Vec<u8>,
    /// How often the password was hashed.
    pub iterations: u32,
    /// What a client's proof is held against.
    pub stored_key: Vec<u8>,
    /// What the server proves with that it is the right one.
    pub server_key: Vec<u8>,
}

impl Credential {
    /// What to keep of `password`. `salt` must be unpredictable and used for this password only.
    ///
    /// This takes the longer the more iterations there are; not on a thread that others wait for.
    pub fn derive(variant: Variant, password: &str, salt: &[u8], iterations: u32) -> Self {
        Self::of_salted(variant, &salt_password(variant, password, salt, iterations), salt, iterations)
    }

    /// What to keep of a password that was salted by someone else, as AlterUserScramCredentials brings it; `None`
    /// where `salted_password` has not the length of a hash.
    pub fn from_salted_password(
        variant: Variant,
        salted_password: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> Option<Self> {
        (salted_password.len() == variant.hash_bytes())
            .then(|| Self::of_salted(variant, salted_password, salt, iterations))
    }

    /// What a user who does not exist is challenged with. No password and no proof fits it, and checking one takes the
    /// same time as for any other.
    ///
    /// The same `seed` gives the same salt, so that asking twice does not tell a decoy from a real one: see
    /// [`decoy_seed`]. `iterations` should be what most real users have.
    pub fn decoy(variant: Variant, seed: &[u8], iterations: u32) -> Self {
        // Each kind gets its own salt, as real ones have.
        let salt = Hmac::<Sha256>::new(seed).code(&[b"salt for ", variant.name().as_bytes()]);
        Self {
            variant,
            salt: salt[..SALT_BYTES].to_vec(),
            iterations,
            // Nobody knows what hashes to nothing but zeros.
            stored_key: vec![0; variant.hash_bytes()],
            server_key: vec![0; variant.hash_bytes()],
        }
    }

    fn of_salted(variant: Variant, salted: &[u8], salt: &[u8], iterations: u32) -> Self {
        let (stored_key, server_key) = match variant {
            Variant::Sha256 => keys::<Sha256>(salted),
            Variant::Sha512 => keys::<Sha512>(salted),
        };
        Self { variant, salt: salt.to_vec(), iterations, stored_key, server_key }
    }
}

/// The keys stay out of logs: whoever has the stored key can try passwords, and whoever has the server key can play
/// the broker.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("variant", &self.variant)
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// What AlterUserScramCredentials brings instead of a password; [`Credential::from_salted_password`] is its other end.
/// Whoever has it can log in, as with the password itself.
///
/// This takes as long as [`Credential::derive`]; not on a thread that others wait for.
pub fn salt_password(variant: Variant, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
    match variant {
        Variant::Sha256 => salted_password::<Sha256>(password.as_bytes(), salt, iterations),
        Variant::Sha512 => salted_password::<Sha512>(password.as_bytes(), salt, iterations),
    }
}

/// Whether this is the password that `credential` was made from. All of it is always compared.
///
/// This takes as long as [`Credential::derive`]; not on a thread that others wait for.
pub fn verify_password(credential: &Credential, password: &str) -> bool {
    let Credential { variant, salt, iterations, .. } = credential;
    let derived = Credential::derive(*variant, password, salt, *iterations);
    same(&derived.stored_key, &credential.stored_key)
}

/// What [`Credential::decoy`] is made from for one name of one organisation. `key` is a secret that stays the same as
/// long as users do: with another key the salts of those who do not exist would change, and only theirs.
pub fn decoy_seed(key: &[u8], org: &str, user: &str) -> Vec<u8> {
    // The length keeps names apart that are equal only when written in a row.
    let length = u64::try_from(org.len()).unwrap_or(u64::MAX).to_be_bytes();
    Hmac::<Sha256>::new(key).code(&[&length, org.as_bytes(), user.as_bytes()])
}

/// The stored key and the server key.
fn keys<H: Hash>(salted: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let salted = Hmac::<H>::new(salted);
    (hash::<H>(&[&salted.code(&[b"Client Key"])]), salted.code(&[b"Server Key"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base64;

    const SALT: &[u8] = b"sixteen bytes it";

    #[test]
    fn keys_are_those_of_the_user_in_rfc_7677() {
        let salt = base64::decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credential = Credential::derive(Variant::Sha256, "pencil", &salt, 4096);
        assert_eq!(base64::encode(&credential.stored_key), "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=");
        assert_eq!(base64::encode(&credential.server_key), "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=");
    }

    #[test]
    fn only_the_password_itself_is_recognised() {
        for variant in Variant::ALL {
            let credential = Credential::derive(variant, "correct horse", SALT, 4096);
            assert_eq!(credential.stored_key.len(), variant.hash_bytes());
            assert!(verify_password(&credential, "correct horse"));
            for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
                assert!(!verify_password(&credential, wrong), "{wrong}");
            }
            let cut = Credential { stored_key: Vec::new(), ..credential };
            assert!(!verify_password(&cut, "correct horse"));
        }
    }

    #[test]
    fn a_password_salted_elsewhere_gives_the_same_credential() {
        let salted = salted_password::<Sha512>(b"secret", SALT, 4096);
        let credential = Credential::from_salted_password(Variant::Sha512, &salted, SALT, 4096);
        assert_eq!(credential, Some(Credential::derive(Variant::Sha512, "secret", SALT, 4096)));
        assert_eq!(Credential::from_salted_password(Variant::Sha256, &salted, SALT, 4096), None);
        assert_eq!(Credential::from_salted_password(Variant::Sha512, &[], SALT, 4096), None);
    }

    #[test]
    fn a_decoy_is_the_same_each_time_and_fits_no_password() {
        let seed = decoy_seed(b"key", "acme", "nobody");
        let decoy = Credential::decoy(Variant::Sha256, &seed, 4096);
        assert_eq!(decoy, Credential::decoy(Variant::Sha256, &seed, 4096));
        assert_eq!(decoy.salt.len(), SALT_BYTES);
        assert_ne!(decoy.salt, Credential::decoy(Variant::Sha512, &seed, 4096).salt);
        assert!(!verify_password(&decoy, ""));
        assert!(!verify_password(&decoy, "secret"));
        for other in [
            decoy_seed(b"kez", "acme", "nobody"),
            decoy_seed(b"key", "acme", "nobodi"),
            decoy_seed(b"key", "acmen", "obody"),
        ] {
            assert_ne!(other, seed);
        }
    }

    #[test]
    fn printing_a_credential_tells_no_key() {
        let credential = Credential::derive(Variant::Sha256, "secret", SALT, 4096);
        assert_eq!(format!("{credential:?}"), "Credential { variant: Sha256, iterations: 4096, .. }");
    }
}
