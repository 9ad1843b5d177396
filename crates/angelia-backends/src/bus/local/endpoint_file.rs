//! `endpoints.jsonl`: the records of the endpoints, one JSON object per line. A line is appended
//! when a record changes. The file is not synced, because a lost line is written again at the next
//! registration.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use angelia_core::model::EndpointName;
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
        for (name, standing) in &known {
            lines.extend(encode_line(name, standing)?);
        }
        file.write_all(&lines)?;
        fs::rename(&temporary, path)?;
        let names = Self { file: Mutex::new(file) };
        Ok((names, known.into_iter().collect()))
    }

    pub(super) fn append(&self, name: &EndpointName, standing: &EndpointRecord) -> io::Result<()> {
        let line = encode_line(name, standing)?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn parse_line(line: EndpointLine) -> Option<(EndpointName, EndpointRecord)> {
    let token = match line.token_sha256 {
        Some(token) => Some(from_hex(&token)?),
        None => None,
    };
    let standing = EndpointRecord { seen: true, durable: line.durable, token };
    Some((EndpointName::new(&line.name).ok()?, standing))
}

fn encode_line(name: &EndpointName, standing: &EndpointRecord) -> io::Result<Vec<u8>> {
    let hex = |token: &[u8; 32]| {
        token.iter().fold(String::new(), |mut hex, byte| {
            let _infallible = write!(hex, "{byte:02x}");
            hex
        })
    };
    let mut line = serde_json::to_vec(&EndpointLine {
        name: name.to_string(),
        durable: standing.durable,
        token_sha256: standing.token.as_ref().map(hex),
    })?;
    line.push(b'\n');
    Ok(line)
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut token = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in token.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(token)
}
