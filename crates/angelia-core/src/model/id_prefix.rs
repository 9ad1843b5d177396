//! The prefix of an id, which identifies a record as long as no other id has the same prefix.

use uuid::Uuid;

/// The number of hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

/// The first digits of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    digits: usize,
    /// The digits, followed by zeros.
    bits: u128,
}

impl IdPrefix {
    /// Minimum number of digits that a person must type.
    pub const MIN_DIGITS: usize = 4;

    /// Parses the prefix of an id, with or without hyphens. Returns `None` if the text is not a
    /// prefix.
    pub fn parse(text: &str) -> Option<Self> {
        let mut prefix = Self { digits: 0, bits: 0 };
        for char in text.chars().filter(|char| *char != '-') {
            let digit = char.to_digit(16).filter(|_| prefix.digits < ID_DIGITS)?;
            prefix.digits += 1;
            prefix.bits |= u128::from(digit) << (4 * (ID_DIGITS - prefix.digits));
        }
        (prefix.digits >= Self::MIN_DIGITS && !text.starts_with('-')).then_some(prefix)
    }

    /// Returns the first `digits` digits of an id.
    pub fn of(id: Uuid, digits: usize) -> Self {
        let digits = digits.clamp(1, ID_DIGITS);
        Self { digits, bits: id.as_u128() & !Self::free_bits(digits) }
    }

    /// Returns the smallest and the largest id with this prefix.
    pub fn range(self) -> (Uuid, Uuid) {
        let last = self.bits | Self::free_bits(self.digits);
        (Uuid::from_u128(self.bits), Uuid::from_u128(last))
    }

    pub const fn digits(self) -> usize {
        self.digits
    }

    const fn free_bits(digits: usize) -> u128 {
        if digits >= ID_DIGITS { 0 } else { u128::MAX >> (4 * digits) }
    }
}

/// Returns the first digits of an id in its written form, with hyphens.
pub fn write_id_start(id: Uuid, digits: usize) -> String {
    let mut left = digits;
    let text = id.hyphenated().to_string();
    let end = text.char_indices().find(|(_, char)| {
        let is_full = left == 0;
        left = left.saturating_sub(usize::from(*char != '-'));
        is_full
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc);

    #[test]
    fn the_start_of_an_id_is_read_with_and_without_hyphens() {
        let prefix = IdPrefix::parse("01923456-78").unwrap();
        assert_eq!(IdPrefix::parse("0192345678"), Some(prefix));
        assert_eq!(IdPrefix::of(ID, 10), prefix);
        let (first, last) = prefix.range();
        assert_eq!(first.to_string(), "01923456-7800-0000-0000-000000000000");
        assert_eq!(last.to_string(), "01923456-78ff-ffff-ffff-ffffffffffff");
        let whole = IdPrefix::parse(&ID.to_string()).unwrap();
        assert_eq!(whole.range(), (ID, ID));
        for wrong in ["019", "last", "0192g", "-0192", "", &format!("{}0", ID.simple())] {
            assert_eq!(IdPrefix::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_start_of_an_id_is_written_as_the_id_is() {
        for (digits, text) in [
            (8, "01923456"),
            (9, "01923456-7"),
            (12, "01923456-789a"),
            (13, "01923456-789a-7"),
            (32, "01923456-789a-7bcd-8ef0-123456789abc"),
        ] {
            assert_eq!(write_id_start(ID, digits), text);
        }
    }
}
