//! Encodes images in the forms that the APIs accept.

use base64::{Engine as _, prelude::BASE64_STANDARD};

pub(super) fn base64_of(data: &[u8]) -> String {
    BASE64_STANDARD.encode(data)
}

pub(super) fn data_url(media_type: &str, data: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64_of(data))
}
