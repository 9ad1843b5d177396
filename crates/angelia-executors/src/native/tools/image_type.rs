//! Recognises the images that models can see, by their first bytes.

/// The APIs refuse larger images.
pub(in crate::native) const MAX_IMAGE_BYTES: usize = 3_750_000;

/// Returns the media type of an image; `None` if models cannot see it.
pub(in crate::native) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Describes a file that is not text.
pub(super) fn binary_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [b'%', b'P', b'D', b'F', b'-', ..] => {
            "a PDF; convert it with a command such as `pdftotext`"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 text; convert it with `iconv -t UTF-8`",
        [0x7f, b'E', b'L', b'F', ..] => "an ELF program or library",
        [b'P', b'K', 3, 4, ..] => "a ZIP archive; list it with a command",
        [0x1f, 0x8b, ..] => "gzip-compressed; unpack it with a command",
        _ => "binary",
    }
}
