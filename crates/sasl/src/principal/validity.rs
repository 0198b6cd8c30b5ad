//! When a certificate holds.

use super::der::{Element, INTEGER, Reader, SEQUENCE};
use super::subject::NotACertificate;
use crate::calendar::days_since_1970;
use crate::limits::MAX_CERTIFICATE;

/// From when to when a certificate holds, and of which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The version of X.509: 1, 2 or 3.
    pub version: u8,
    /// When it begins, in milliseconds since 1970.
    pub begins_ms: i64,
    /// When it ends.
    pub ends_ms: i64,
}

impl Validity {
    /// Reads it from a certificate.
    ///
    /// # Errors
    /// When the bytes are no certificate.
    pub fn of(certificate: &[u8]) -> Result<Self, NotACertificate> {
        if certificate.len() > MAX_CERTIFICATE {
            return Err(NotACertificate);
        }
        read(certificate).ok_or(NotACertificate)
    }
}

/// RFC 5280, section 4.1. A certificate that tells no version is of the first.
fn read(certificate: &[u8]) -> Option<Validity> {
    let certificate = Reader::new(certificate).expect(SEQUENCE)?;
    let mut fields = Reader::new(Reader::new(certificate).expect(SEQUENCE)?);
    const VERSION: u8 = 0xa0;
    let first = fields.next()?;
    let version = if first.tag == VERSION {
        fields.expect(INTEGER)?;
        let &[number] = Reader::new(first.content).expect(INTEGER)? else { return None };
        number.checked_add(1)?
    } else {
        1
    };
    let (_signature, _issuer) = (fields.expect(SEQUENCE)?, fields.expect(SEQUENCE)?);
    let mut validity = Reader::new(fields.expect(SEQUENCE)?);
    let (begins_ms, ends_ms) = (moment(validity.next()?)?, moment(validity.next()?)?);
    Some(Validity { version, begins_ms, ends_ms })
}

/// A UTCTime, `YYMMDDhhmmssZ`, or a GeneralizedTime, `YYYYMMDDhhmmssZ`.
fn moment(time: Element<'_>) -> Option<i64> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let digits = time.content.strip_suffix(b"Z")?;
    let numbers = |digits: &[u8]| {
        digits.iter().try_fold(0_i64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, rest) = match (time.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = numbers(&digits[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (numbers(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let mut parts = rest.chunks(2).map(numbers);
    let mut part = || parts.next().flatten();
    let (month, day) = (part()?, part()?);
    let seconds = (part()? * 60 + part()?) * 60 + part()?;
    if !(1..=12).contains(&month) {
        return None;
    }
    Some((days_since_1970(year, month, day) * 86_400 + seconds) * 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_tells_when_it_holds() {
        for (begins, ends) in
            [((1970, 1, 1), (2000, 2, 29)), ((2024, 2, 29), (2049, 12, 31)), ((2000, 3, 1), (4096, 1, 1))]
        {
            let date = |(year, month, day)| date_time_ymd(year, month, day);
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            (params.not_before, params.not_after) = (date(begins), date(ends));
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            let validity = Validity::of(&der).unwrap();
            let expected = |day| date(day).unix_timestamp() * 1000;
            assert_eq!(
                validity,
                Validity { version: 3, begins_ms: expected(begins), ends_ms: expected(ends) }
            );
        }
    }

    #[test]
    fn times_are_read_to_the_second() {
        let read = |tag, text: &str| moment(Element { tag, content: text.as_bytes(), whole: &[] });
        assert_eq!(read(0x17, "700101000001Z"), Some(1000));
        assert_eq!(read(0x17, "491231235959Z"), read(0x18, "20491231235959Z"));
        assert_eq!(read(0x17, "500101000000Z"), read(0x18, "19500101000000Z"));
        for wrong in ["7001010000Z", "70010100000xZ", "701301000000Z", "700101000000", ""] {
            assert_eq!(read(0x17, wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Validity::of(&bytes);
        }
    }
}
