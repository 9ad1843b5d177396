//! `endpoints.jsonl`: the records of the endpoints, one JSON object per line. A line is appended
//! when a record changes. The file is not synced, because a lost line is written again at the next
//! registration.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use angelia_core::model::EndpointName;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::bus::index::EndpointRecord;

#[derive(Debug)]
pub(super) struct EndpointFile {
    file: Mutex<File>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EndpointLine {
    name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    durable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl EndpointFile {
    /// Opens the file and returns the records in it. Rewrites the file with one line per endpoint,
    /// without the lines that later ones have replaced.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<(EndpointName, EndpointRecord)>)> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut known = BTreeMap::new();
        // A last line that was cut off by a crash does not parse and is skipped.
        for line in text.split(|byte| *byte == b'\n') {
            let line: Option<EndpointLine> = serde_json::from_slice(line).ok();
            known.extend(line.and_then(parse_line));
        }
        let temporary: PathBuf = path.with_extension("new");
        let mut file = create(&temporary)?;
        let mut lines = Vec::new();
        for (name, record) in &known {
            lines.extend(encode_line(name, record)?);
        }
        file.write_all(&lines)?;
        fs::rename(&temporary, path)?;
        let names = Self { file: Mutex::new(file) };
        Ok((names, known.into_iter().collect()))
    }

    pub(super) fn append(&self, name: &EndpointName, record: &EndpointRecord) -> io::Result<()> {
        let line = encode_line(name, record)?;
        self.file.lock().write_all(&line)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn parse_line(line: EndpointLine) -> Option<(EndpointName, EndpointRecord)> {
    let token = match line.token_sha256 {
        Some(digits) => {
            let mut token = [0; 32];
            hex::decode_to_slice(digits, &mut token).ok()?;
            Some(token)
        }
        None => None,
    };
    let record = EndpointRecord {
        seen: true,
        durable: line.durable,
        token,
        agent: line.agent.map(Into::into),
    };
    Some((EndpointName::new(&line.name).ok()?, record))
}

fn encode_line(name: &EndpointName, record: &EndpointRecord) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&EndpointLine {
        name: name.to_string(),
        durable: record.durable,
        token_sha256: record.token.map(hex::encode),
        agent: record.agent.as_deref().map(str::to_owned),
    })?;
    line.push(b'\n');
    Ok(line)
}
