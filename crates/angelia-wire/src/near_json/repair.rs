//! Replaces lone surrogates and invalid UTF-8 with U+FFFD, and removes a byte order mark.

use std::borrow::Cow;

use memchr::{memchr, memmem};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// As long as every other `\u` escape, so replacing one shifts nothing.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// Returns JSON whose strings contain only valid characters. Borrows if there is nothing to repair.
pub fn repair(json: &[u8]) -> Cow<'_, [u8]> {
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    let json = match std::str::from_utf8(json) {
        Ok(_) => Cow::Borrowed(json),
        Err(_) => Cow::Owned(String::from_utf8_lossy(json).into_owned().into_bytes()),
    };
    // The escape of every surrogate begins with one of these.
    let has_surrogate =
        memmem::find(&json, br"\ud").is_some() || memmem::find(&json, br"\uD").is_some();
    if has_surrogate { replace_lone_surrogates(json) } else { json }
}

fn replace_lone_surrogates(mut json: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let mut at = 0;
    while let Some(found) = memchr(b'\\', &json[at..]) {
        at += found;
        match unicode_escape(&json[at..]) {
            Some(0xd800..=0xdbff) if is_low_surrogate(&json[at + 6..]) => at += 12,
            Some(0xd800..=0xdfff) => {
                json.to_mut()[at..at + 6].copy_from_slice(REPLACEMENT);
                at += 6;
            }
            // Any other escape: skip two bytes, because the second may be a backslash.
            _ => at = (at + 2).min(json.len()),
        }
    }
    json
}

fn is_low_surrogate(json: &[u8]) -> bool {
    matches!(unicode_escape(json), Some(0xdc00..=0xdfff))
}

/// Returns the code unit of the `\u` escape at the start.
fn unicode_escape(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(br"\u")?.get(..4)?;
    let mut unit = 0;
    for digit in digits {
        unit = unit << 4 | u16::try_from(char::from(*digit).to_digit(16)?).ok()?;
    }
    Some(unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_not() {
        let table = [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uD83D""#, r#""\ufffd""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\ud83"#, r#""\ud83"#),
            ("\"\\ud83d\\", "\"\\ufffd\\"),
        ];
        for (given, expected) in table {
            assert_eq!(repair(given.as_bytes()), expected.as_bytes(), "{given}");
        }
    }

    #[test]
    fn what_is_not_utf_8_is_replaced_and_a_byte_order_mark_removed() {
        assert_eq!(repair(b"\xef\xbb\xbf{}"), &b"{}"[..]);
        assert_eq!(repair(b"\"gr\xfc\xdf\""), "\"gr\u{fffd}\u{fffd}\"".as_bytes());
        assert!(matches!(repair(r#"{"a":"\u00fc ü 😀"}"#.as_bytes()), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn repaired_strings_can_be_read(
            parts in prop::collection::vec("[a-z\\\\\"]|\\\\u[dD][89a-fA-F][0-9a-f]{2}", 0..12),
        ) {
            let inner: String = parts
                .iter()
                .map(|part| match part.as_str() {
                    "\\" => r"\\".to_owned(),
                    "\"" => "\\\"".to_owned(),
                    other => other.to_owned(),
                })
                .collect();
            let json = format!("\"{inner}\"");
            let repaired = repair(json.as_bytes());
            prop_assert!(serde_json::from_slice::<String>(&repaired).is_ok(), "{json}");
        }

        #[test]
        fn good_json_stays_as_it_is(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert!(matches!(repair(json.as_bytes()), Cow::Borrowed(_)));
        }
    }
}
