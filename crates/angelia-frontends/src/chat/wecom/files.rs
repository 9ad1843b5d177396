//! Files. Those from people are downloaded and decrypted; our own are uploaded in parts and then named in a
//! message.

use angelia_core::ports::{InboundFile, OutgoingFile, SendError, SendErrorKind, SentMessage};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::{Digest as _, Md5};
use reqwest::Url;
use serde_json::{Value, json};

use super::{
    adapter::Wecom,
    crypto::decrypt,
    frame::{SERVER, UPLOAD_BEGIN, UPLOAD_END, UPLOAD_PART},
};
use crate::chat::{
    outgoing_file::read_outgoing_file,
    platform_http::{classify_transport_error, is_loopback, read_body},
};

const MAX_FILE_BYTES: u64 = 20 << 20;

/// The largest part of an upload.
const PART_BYTES: usize = 512 << 10;

/// The padding makes encrypted files longer, by at most this much.
const MAX_PADDING: u64 = 64;

fn refused(message: String) -> SendError {
    SendError::new(SendErrorKind::Refused, message)
}

impl Wecom {
    pub(super) async fn upload_file(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let bytes = read_outgoing_file(file, SERVER, MAX_FILE_BYTES).await?;
        if bytes.is_empty() {
            let message = format!("{} is empty, which {SERVER} does not accept", file.name);
            return Err(refused(message));
        }
        let ending = file.name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let is_picture = ["png", "jpg", "jpeg", "gif"].contains(&&*ending.to_ascii_lowercase());
        let kind = if is_picture { "image" } else { "file" };
        // Nobody sees an upload before a message names it, so this may be repeated.
        let media =
            self.upload(kind, &file.name, &bytes).await.map_err(|error| match error.kind {
                SendErrorKind::Unknown => SendError { kind: SendErrorKind::NotSent, ..error },
                SendErrorKind::NotSent | SendErrorKind::Refused => error,
            })?;
        self.push(chat, json!({"msgtype": kind, kind: {"media_id": media}})).await?;
        Ok(SentMessage::default())
    }

    async fn upload(&self, kind: &str, name: &str, bytes: &[u8]) -> Result<String, SendError> {
        let session = self.session_to_send().await?;
        let parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
        let about = json!({
            "type": kind, "filename": name, "total_size": bytes.len(),
            "total_chunks": parts.len(), "md5": hex::encode(Md5::digest(bytes)),
        });
        let begun = session.request(UPLOAD_BEGIN, &about).await?;
        let upload = text_of(&begun.body["upload_id"])?;
        for (index, part) in parts.iter().enumerate() {
            let part = json!({
                "upload_id": upload, "chunk_index": index, "base64_data": STANDARD.encode(part),
            });
            session.request(UPLOAD_PART, &part).await?;
        }
        let ended = session.request(UPLOAD_END, &json!({"upload_id": upload})).await?;
        text_of(&ended.body["media_id"])
    }

    pub(super) async fn download_file(
        &self,
        file: &InboundFile,
        limit: u64,
    ) -> Result<Vec<u8>, SendError> {
        let (key, address) = file.id.split_once(' ').unwrap_or_default();
        let url: Url =
            address.parse().map_err(|_| refused("the file has no address".to_owned()))?;
        // The request carries no credentials. A server named by `base_url` may be on this machine.
        let is_local = url.scheme() == "http" && is_loopback(&url) && self.is_local;
        if url.scheme() != "https" && !is_local {
            return Err(refused("the address of the file is not encrypted".to_owned()));
        }
        let response = self.http.get(url).send().await;
        let response = response.map_err(|error| classify_transport_error(SERVER, &error))?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(refused(format!("{SERVER} does not release the file: {status}")));
        }
        let bytes = read_body(SERVER, response, limit.saturating_add(MAX_PADDING)).await?;
        let content = if key.is_empty() { Some(bytes) } else { decrypt(key, bytes) };
        let content = content.ok_or_else(|| refused("the file cannot be decrypted".to_owned()))?;
        if content.len() as u64 > limit {
            return Err(refused(format!("the file has more than {limit} bytes")));
        }
        Ok(content)
    }
}

fn text_of(value: &Value) -> Result<String, SendError> {
    let text = value.as_str().filter(|text| !text.is_empty());
    let message = format!("{SERVER} did not accept the file");
    text.map(str::to_owned).ok_or_else(|| SendError::new(SendErrorKind::NotSent, message))
}
