//! Files: downloaded with the token, from Slack's hosts only, and sent in three steps.

use angelia_core::ports::{InboundFile, OutgoingFile, SendError, SendErrorKind, SentMessage};
use reqwest::header;
use serde_json::{Value, json};

use super::{adapter::Slack, web_api::SERVER, writing::MessagePlace};
use crate::chat::{outgoing_file::read_outgoing_file, platform_http::read_body};

const MAX_FILE_BYTES: u64 = 200 << 20;

impl Slack {
    pub(super) async fn send_upload(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let target = MessagePlace::read(chat, None)?;
        let bytes = read_outgoing_file(file, SERVER, MAX_FILE_BYTES).await?;
        let length = bytes.len().to_string();
        let fields = [("filename", &*file.name), ("length", &*length)];
        // Nobody sees anything before the last step, so the first two may be repeated.
        let begun = self.api.call_with_form("files.getUploadURLExternal", &fields).await;
        let begun = begun.map_err(|error| not_sent(error.into()))?;
        let (Some(address), Some(id)) = (begun["upload_url"].as_str(), begun["file_id"].as_str())
        else {
            let message = "Slack gave no address for the file";
            return Err(SendError::new(SendErrorKind::NotSent, message));
        };
        self.api.upload(address, bytes).await.map_err(not_sent)?;
        self.wait_to_post(&target).await;
        let mut fields = json!({
            "files": [{"id": id, "title": &*file.name}], "channel_id": target.channel,
        });
        if let Some(thread) = target.thread {
            fields["thread_ts"] = thread.into();
        }
        self.api.call("files.completeUploadExternal", &fields).await?;
        // The message with the file appears later, as an event.
        Ok(SentMessage { message_id: None })
    }

    pub(super) async fn fetch(&self, file: &InboundFile, limit: u64) -> Result<Vec<u8>, SendError> {
        if file.size.is_some_and(|size| size > limit) {
            let message = format!("{} has more than {limit} bytes", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        let address = if file.id.contains("://") {
            file.id.to_string()
        } else {
            self.find_address(&file.id).await?
        };
        let response = self.api.download(&address, limit).await?;
        // Without the scope, Slack returns the login page.
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if is_page && file.media_type.as_deref() != Some("text/html") {
            let message = "Slack does not release the file; the bot needs the scope files:read";
            return Err(SendError::new(SendErrorKind::Refused, message));
        }
        read_body(SERVER, response, limit).await
    }

    async fn find_address(&self, id: &str) -> Result<String, SendError> {
        let found: Value = self.api.call_with_form("files.info", &[("file", id)]).await?;
        let address = found["file"]["url_private_download"].as_str().map(str::to_owned);
        address.ok_or_else(|| {
            SendError::new(SendErrorKind::Refused, "Slack has no address for the file")
        })
    }
}

fn not_sent(error: SendError) -> SendError {
    match error.kind {
        SendErrorKind::Unknown => SendError { kind: SendErrorKind::NotSent, ..error },
        SendErrorKind::Refused | SendErrorKind::NotSent => error,
    }
}
