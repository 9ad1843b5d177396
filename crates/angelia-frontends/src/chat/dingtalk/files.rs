//! Files. A file from a person is downloaded by its code; a file of ours is uploaded and then named
//! in a message.

use angelia_core::ports::{InboundFile, OutgoingFile, SendError, SendErrorKind, SentMessage};
use reqwest::Method;
use serde_json::json;

use super::{adapter::DingTalk, open_api::SERVER, writing::Recipient};
use crate::chat::{multipart::encode_form, outgoing_file::read_outgoing_file};

const MAX_FILE_BYTES: u64 = 20 << 20;

impl DingTalk {
    pub(super) async fn upload_file(
        &self,
        chat: &str,
        file: &OutgoingFile,
    ) -> Result<SentMessage, SendError> {
        let recipient = Recipient::parse(chat)?;
        let bytes = read_outgoing_file(file, SERVER, MAX_FILE_BYTES).await?;
        let ending = file.name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let ending = ending.to_ascii_lowercase();
        let is_picture = ["png", "jpg", "jpeg", "gif"].contains(&ending.as_str());
        let kind = if is_picture { "image" } else { "file" };
        let boundary = format!("angelia-{}", self.clock.fresh_uuid().simple());
        let (content_type, form) = encode_form(&boundary, &[], ("media", &file.name, &bytes));
        let uploaded = self.api.upload(kind, &content_type, form).await.map_err(SendError::from);
        // Nobody sees an upload before a message names it, so this may be repeated.
        let media = uploaded.map_err(|error| match error.kind {
            SendErrorKind::Unknown => SendError { kind: SendErrorKind::NotSent, ..error },
            SendErrorKind::NotSent | SendErrorKind::Refused => error,
        })?;
        let (key, parameters) = if is_picture {
            ("sampleImageMsg", json!({"photoURL": media}))
        } else {
            let fields = json!({"mediaId": media, "fileName": &*file.name, "fileType": ending});
            ("sampleFile", fields)
        };
        self.wait_for_budget(chat).await;
        self.send_by_api(recipient, key, &parameters).await?;
        Ok(SentMessage::default())
    }

    pub(super) async fn download_file(
        &self,
        file: &InboundFile,
        limit: u64,
    ) -> Result<Vec<u8>, SendError> {
        let body = json!({"robotCode": &*self.api.client_id, "downloadCode": &*file.id});
        let path = "/v1.0/robot/messageFiles/download";
        let found = self.api.call(Method::POST, path, &body).await?;
        let Some(address) = found["downloadUrl"].as_str() else {
            let message = format!("{SERVER} has no address for {}", file.name);
            return Err(SendError::new(SendErrorKind::Refused, message));
        };
        self.api.download(address, limit).await
    }
}
