//! `read`: shows a file with line numbers, or an image.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use angelia_core::{model::Content, ports::BoxFuture};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    excerpt::{MAX_LINES, number_lines},
    image_type::{MAX_IMAGE_BYTES, binary_type, image_type},
    real_file::read_file,
    text_file::{NoText, TextFile},
    tool::{
        CallError, CallIo, CallOutput, CallPlan, PreparedCall, Tool, parse_arguments, run_blocking,
    },
    workspace::Workspace,
};

#[derive(Debug)]
pub struct ReadTool {
    workspace: Arc<Workspace>,
}

impl ReadTool {
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Debug, Deserialize)]
struct ReadArguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Debug)]
struct ReadCall {
    workspace: Arc<Workspace>,
    path: PathBuf,
    first: usize,
    limit: usize,
    plan: CallPlan,
}

impl Tool for ReadTool {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Read a file: numbered lines, at most 2000 from `offset`; images are shown. Read a file before \
         you change it."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer","description":"first line, from 1"},"limit":{"type":"integer","description":"number of lines"}},"required":["path"]}"#
    }

    fn prepare(&self, arguments: &RawValue) -> Result<Box<dyn PreparedCall>, CallError> {
        let wanted: ReadArguments = parse_arguments(arguments)?;
        let path = self.workspace.resolve(&wanted.path)?;
        let title = format!("read {}", self.workspace.shown(&path));
        Ok(Box::new(ReadCall {
            workspace: Arc::clone(&self.workspace),
            first: wanted.offset.unwrap_or(1).max(1),
            limit: wanted.limit.unwrap_or(MAX_LINES).max(1),
            plan: CallPlan::reads(title, vec![path.clone()]),
            path,
        }))
    }
}

impl PreparedCall for ReadCall {
    fn plan(&self) -> &CallPlan {
        &self.plan
    }

    fn run(self: Box<Self>, _io: CallIo) -> BoxFuture<'static, CallOutput> {
        run_blocking(move || self.read())
    }
}

impl ReadCall {
    fn read(&self) -> Result<CallOutput, CallError> {
        let shown = self.workspace.shown(&self.path);
        let bytes = read_file(&self.path)
            .map_err(|error| CallError::new(format!("{shown} cannot be read: {error}")))?
            .ok_or_else(|| {
                CallError::new(format!("{shown} does not exist; find the file with `glob`"))
            })?;
        if let Some(media_type) = image_type(&bytes) {
            return self.show_image(media_type, bytes);
        }
        self.workspace.note_seen(&self.path, &bytes);
        let size = bytes.len();
        let (text, remark) = match TextFile::decode(bytes.clone()) {
            Ok(file) => (file.text, None),
            Err(NoText::Encoding) => (
                String::from_utf8_lossy(&bytes).into_owned(),
                Some("the file is not UTF-8: what is shown as \u{fffd} are other bytes"),
            ),
            Err(NoText::Binary) => {
                let kind = binary_type(&bytes);
                return Ok(CallOutput::text(format!("{shown} has {size} bytes and is {kind}")));
            }
        };
        Ok(CallOutput::text(self.show_text(&text, remark)))
    }

    fn show_text(&self, text: &str, remark: Option<&str>) -> String {
        let shown = number_lines(text, self.first, self.limit);
        let mut result = shown.text;
        let end = shown.lines.end;
        if shown.total == 0 {
            result.push_str("(the file is empty)\n");
        } else if self.first > shown.total {
            let _infallible = writeln!(result, "(the file has only {} lines)", shown.total);
        } else if end <= shown.total {
            let (first, last, total) = (self.first, end - 1, shown.total);
            let _infallible =
                writeln!(result, "(lines {first} to {last} of {total}; go on with offset={end})");
        }
        if let Some(remark) = remark {
            let _infallible = writeln!(result, "({remark})");
        }
        result
    }

    fn show_image(&self, media_type: &str, bytes: Vec<u8>) -> Result<CallOutput, CallError> {
        let shown = self.workspace.shown(&self.path);
        let size = bytes.len();
        if size > MAX_IMAGE_BYTES {
            return Err(CallError::new(format!(
                "{shown} is an image of {size} bytes, and at most {MAX_IMAGE_BYTES} can be shown; \
                 make it smaller with a command and read that file"
            )));
        }
        let note = Content::text(format!("{shown}, {media_type}, {size} bytes"));
        let image = Content::Image { media_type: media_type.into(), data: bytes.into() };
        Ok(CallOutput { content: vec![note, image], ..CallOutput::text("") })
    }
}
