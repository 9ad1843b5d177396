//! Lenient deserialization of messages from other vendors' programs. Strings are borrowed where
//! possible. A field of an unexpected type counts as absent, so that a changed detail never makes a
//! whole message unreadable.

use std::{borrow::Cow, fmt, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::value::RawValue;

/// A string that borrows from the input line unless it contains escapes. (serde always copies into
/// an `Option<Cow<str>>`.)
#[derive(Clone, Debug)]
pub(crate) struct BorrowedStr<'a>(pub(crate) Cow<'a, str>);

impl Deref for BorrowedStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for BorrowedStr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = BorrowedStr<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<BorrowedStr<'de>, E> {
                Ok(BorrowedStr(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BorrowedStr<'de>, E> {
                Ok(BorrowedStr(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A field that is `None` if its value does not have the expected type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lenient<T>(pub(crate) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        // `null` is frequent; return early, because building a serde error allocates a string.
        if raw == "null" {
            return Ok(Self(None));
        }
        Ok(Self(serde_json::from_str(raw).ok()))
    }
}

impl Lenient<BorrowedStr<'_>> {
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<T: Copy> Lenient<T> {
    pub(crate) fn get(&self) -> Option<T> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, default)]
        text: Lenient<BorrowedStr<'a>>,
        #[serde(default)]
        number: Lenient<u16>,
        #[serde(borrow, default)]
        list: Lenient<Vec<BorrowedStr<'a>>>,
    }

    fn read(json: &str) -> Fields<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_text_is_borrowed_unless_it_holds_escapes() {
        let fields = read(r#"{"text": "plain", "list": ["a", "b\n"]}"#);
        assert!(matches!(fields.text.0, Some(BorrowedStr(Cow::Borrowed("plain")))));
        let list = fields.list.0.unwrap();
        assert_eq!((&*list[0], &*list[1]), ("a", "b\n"));
        let fields = read(r#"{"text": "a \"quote\" \u00e9"}"#);
        assert_eq!(fields.text.as_str(), Some("a \"quote\" é"));
    }

    #[test]
    fn what_is_of_another_type_is_absent() {
        for json in ["null", "1", "[]", r#"{"a": "b"}"#, "true"] {
            let line = format!(r#"{{"text": {json}, "number": 7}}"#);
            let fields = read(&line);
            assert!(fields.text.0.is_none(), "{json}");
            assert_eq!(fields.number.get(), Some(7));
        }
        for json in ["null", "-1", "65536", "1.5", r#""7""#] {
            let line = format!(r#"{{"number": {json}, "text": "t"}}"#);
            let fields = read(&line);
            assert!(fields.number.get().is_none(), "{json}");
            assert_eq!(fields.text.as_str(), Some("t"));
        }
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        assert!(serde_json::from_str::<Fields<'_>>(r#"{"text": "a"#).is_err());
        assert!(serde_json::from_str::<Fields<'_>>(r#"{"text": "\x"}"#).is_err());
    }
}
