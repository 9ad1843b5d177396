//! Converts a file to text without a byte order mark and with plain line endings, and back.

use std::borrow::Cow;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The content of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextFile {
    /// With `\n` as line ending; unchanged if the file mixes line endings.
    pub(super) text: String,
    form: TextForm,
}

/// The form of a file, which a change must preserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextForm {
    has_mark: bool,
    has_crlf: bool,
}

/// Why a file is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoText {
    Binary,
    /// Text in an encoding other than UTF-8.
    Encoding,
}

impl TextFile {
    pub(super) fn decode(bytes: Vec<u8>) -> Result<Self, NoText> {
        if memchr::memchr(0, &bytes).is_some() {
            return Err(NoText::Binary);
        }
        let mut text = String::from_utf8(bytes).map_err(|_| NoText::Encoding)?;
        let has_mark = text.starts_with(BYTE_ORDER_MARK);
        if has_mark {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let has_crlf = ends > 0 && text.matches("\r\n").count() == ends;
        if has_crlf {
            text = text.replace("\r\n", "\n");
        }
        Ok(Self { text, form: TextForm { has_mark, has_crlf } })
    }

    pub(super) fn form(&self) -> TextForm {
        self.form
    }
}

impl TextForm {
    /// Returns the bytes of a file in this form.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len() + BYTE_ORDER_MARK.len_utf8());
        if self.has_mark {
            bytes.extend(BYTE_ORDER_MARK.to_string().into_bytes());
        }
        if self.has_crlf {
            bytes.extend(text.replace('\n', "\r\n").into_bytes());
        } else {
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    /// Like [`Self::encode`], for a complete file from a model, which may have written the mark and
    /// the line endings itself.
    pub(super) fn encode_whole(self, text: &str) -> Vec<u8> {
        let text = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.has_mark => rest,
            _ => text,
        };
        self.encode(&self.compared(text))
    }

    /// Returns text from a model with the line endings of [`TextFile::text`], so that the two can
    /// be compared.
    pub(super) fn compared(self, text: &str) -> Cow<'_, str> {
        if self.has_crlf && text.contains('\r') {
            Cow::Owned(text.replace("\r\n", "\n"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mark_and_line_ends_are_kept() {
        let file = TextFile::decode("\u{feff}a\r\nb\r\n".into()).unwrap();
        assert_eq!(file.text, "a\nb\n");
        assert_eq!(file.form().encode("a\nc\n"), "\u{feff}a\r\nc\r\n".as_bytes());
        assert_eq!(file.form().encode_whole("\u{feff}a\r\nc"), "\u{feff}a\r\nc".as_bytes());
        assert_eq!(file.form().compared("a\r\nb"), "a\nb");
        let mixed = TextFile::decode("a\r\nb\n".into()).unwrap();
        assert_eq!(mixed.text, "a\r\nb\n");
        assert_eq!(TextFile::decode(b"a\0b".to_vec()), Err(NoText::Binary));
        assert_eq!(TextFile::decode(b"caf\xe9".to_vec()), Err(NoText::Encoding));
    }

    proptest! {
        #[test]
        fn what_is_not_changed_is_written_as_it_was(text in "\u{feff}?(a|\r|\n|\r\n|é){0,12}") {
            let file = TextFile::decode(text.clone().into_bytes()).unwrap();
            prop_assert_eq!(file.form().encode(&file.text), text.into_bytes());
        }
    }
}
