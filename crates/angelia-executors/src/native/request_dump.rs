//! Writes the last request of a failed turn to a file, to find out what the server did not like. It
//! is opt-in per provider, because a request contains the whole conversation.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use angelia_core::{
    model::{Failure, TurnId},
    redact::Redactor,
};
use jiff::Timestamp;
use reqwest::header::HeaderName;
use serde::Serialize;
use serde_json::value::RawValue;

use super::client::Endpoint;

/// The number of files that are kept per session; older ones are deleted.
const MAX_DUMPS: usize = 5;

const PREFIX: &str = "request-";

/// The folder with a session's dumps.
#[derive(Debug)]
pub(super) struct DumpFolder(PathBuf);

/// A request that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedRequest<'a> {
    pub(super) turn: TurnId,
    pub(super) at: Timestamp,
    pub(super) endpoint: &'a Endpoint,
    pub(super) failure: &'a Failure,
    pub(super) body: &'a [u8],
}

#[derive(Serialize)]
struct Dump<'a> {
    at: Timestamp,
    turn: String,
    url: String,
    /// Without their values, which may be secrets.
    header_names: Vec<&'a str>,
    failure: &'a str,
    body: DumpBody<'a>,
}

/// A body with its secrets masked. It is stored as text if masking broke its JSON syntax.
#[derive(Serialize)]
#[serde(untagged)]
enum DumpBody<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl DumpFolder {
    /// `session` is the session's folder.
    pub(super) fn below(session: &Path) -> Self {
        Self(session.join("requests"))
    }

    /// Writes a request to a file that only the owner can read, and deletes the oldest files.
    pub(super) fn write(
        &self,
        request: &FailedRequest<'_>,
        redactor: &Redactor,
    ) -> io::Result<PathBuf> {
        let url = request.endpoint.url();
        let body = String::from_utf8_lossy(request.body);
        let body = redactor.redact(&body);
        let dump = Dump {
            at: request.at,
            turn: request.turn.to_string(),
            url: format!("{}{}", url.origin().ascii_serialization(), url.path()),
            header_names: request.endpoint.headers().keys().map(HeaderName::as_str).collect(),
            failure: &request.failure.message,
            body: match serde_json::from_str(&body) {
                Ok(json) => DumpBody::Json(json),
                Err(_) => DumpBody::Text(&body),
            },
        };
        let text = serde_json::to_vec_pretty(&dump)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.0.join(format!("{PREFIX}{:016}.json", request.at.as_microsecond()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(&path)?.write_all(&text)?;
        self.remove_oldest()?;
        Ok(path)
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                names.push(name);
            }
        }
        // The names are timestamps of equal length, so they sort by age.
        names.sort();
        let surplus = names.len().saturating_sub(MAX_DUMPS);
        names.iter().take(surplus).try_for_each(|name| fs::remove_file(self.0.join(name)))
    }
}
