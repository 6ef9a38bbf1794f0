//! Decimal numbers, as used in extended headers and in the maps of sparse files.

use crate::layers::values::Error;

pub(crate) fn decimal(text: &[u8]) -> Result<u64, Error> {
    const WRONG: Error = Error::Malformed("a number that is none");
    if text.is_empty() {
        return Err(WRONG);
    }
    text.iter().try_fold(0u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0'))).ok_or(WRONG),
        _ => Err(WRONG),
    })
}
