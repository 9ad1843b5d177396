//! Collects the output of a command or of an external tool: a limited part in memory, and all of it
//! in a file once it is longer than that.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use super::{
    command_text::{CutText, clean},
    output_folder::{OutputFile, OutputFolder},
};

/// The number of bytes from the start and from the end that stay in memory. Each is more than a
/// result may have.
const HEAD_BYTES: usize = 64 * 1024;
const TAIL_BYTES: usize = 96 * 1024;

#[derive(Debug)]
pub(in crate::native) struct OutputCapture {
    folder: Arc<OutputFolder>,
    file_name: &'static str,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    file: Option<OutputFile>,
    file_failed: bool,
}

/// The output of a command for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::native) struct CapturedText {
    pub(in crate::native) text: String,
    /// The file with the whole output, if `text` is not all of it.
    pub(super) file: Option<PathBuf>,
}

impl OutputCapture {
    /// `file_name` is the beginning of the file's name.
    pub(in crate::native) fn new(folder: Arc<OutputFolder>, file_name: &'static str) -> Self {
        Self {
            folder,
            file_name,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            file: None,
            file_failed: false,
        }
    }

    pub(in crate::native) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        if !rest.is_empty() && self.file.is_none() {
            // The file starts with what is already in memory, including `first`.
            self.create_file();
        } else if let Some(file) = &mut self.file {
            file.push(first);
        }
        if let Some(file) = &mut self.file {
            file.push(rest);
        }
        self.tail.extend(&rest[rest.len().saturating_sub(TAIL_BYTES)..]);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
    }

    fn create_file(&mut self) {
        if self.file_failed {
            return;
        }
        match self.folder.create(self.file_name) {
            Ok(mut file) => {
                file.push(&self.head);
                self.file = Some(file);
            }
            Err(error) => {
                let folder = self.folder.path().display();
                tracing::warn!(%error, "cannot keep the output of a command in {folder}");
                self.file_failed = true;
            }
        }
    }

    /// Returns what the model sees.
    pub(in crate::native) fn finish(mut self) -> CapturedText {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let head = std::mem::take(&mut self.head);
        let tail: Vec<u8> = self.tail.drain(..).collect();
        if memchr::memchr(0, &head).is_some() {
            self.head = head;
            if self.file.is_none() {
                self.create_file();
            }
            return self.described("the output is binary");
        }
        let cut = if kept == self.total {
            CutText::new(&clean(&[&*head, &*tail].concat()))
        } else {
            // Some output between the two parts was dropped, so only the start of the first and the
            // end of the second are shown.
            let (first, last) = (CutText::new(&clean(&head)), CutText::new(&clean(&tail)));
            let tail = Some(last.tail.unwrap_or(last.head));
            CutText { head: first.head, tail, is_whole: false }
        };
        if cut.is_whole {
            return CapturedText { text: cut.head, file: None };
        }
        if self.file.is_none() {
            self.head = [head, tail].concat();
            self.create_file();
        }
        let described = self.described("a part is left out");
        let remark = described.text.trim_end().to_owned();
        CapturedText { text: cut.with_remark(&remark), ..described }
    }

    fn described(&self, what: &str) -> CapturedText {
        let total = self.total;
        let file = self.file.as_ref().map(|file| file.path().to_owned());
        let place = match &file {
            Some(path) => format!("all of it is in {}", path.display()),
            None => "it could not be kept".to_owned(),
        };
        CapturedText { text: format!("[{what}: {total} bytes; {place}]\n"), file }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn capture(chunks: &[Vec<u8>]) -> (CapturedText, Option<Vec<u8>>, tempfile::TempDir) {
        let place = tempfile::tempdir().unwrap();
        let folder = Arc::new(OutputFolder::new(place.path().join("output")));
        let mut capture = OutputCapture::new(folder, "bash");
        for chunk in chunks {
            capture.push(chunk);
        }
        let done = capture.finish();
        let whole = done.file.as_ref().map(|path| fs::read(path).unwrap());
        (done, whole, place)
    }

    #[test]
    fn a_short_output_needs_no_file() {
        let (done, whole, place) = capture(&[b"one\n".to_vec(), b"two".to_vec()]);
        assert_eq!((&*done.text, whole), ("one\ntwo\n", None));
        assert!(!place.path().join("output").exists());
    }

    #[test]
    fn binary_output_is_only_described() {
        let (done, whole, _place) = capture(&[b"\x7fELF\0\0".to_vec()]);
        assert!(
            done.text.starts_with("[the output is binary: 6 bytes; all of it is in"),
            "{}",
            done.text
        );
        assert_eq!(whole.unwrap(), b"\x7fELF\0\0");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_file_has_everything(
            sizes in proptest::collection::vec(0_usize..60_000, 1..12), text in "[a-z\n]{1,40}",
        ) {
            let chunks: Vec<Vec<u8>> = sizes
                .iter()
                .map(|size| text.bytes().cycle().take(*size).collect())
                .collect();
            let all = chunks.concat();
            let (done, whole, _place) = capture(&chunks);
            if let Some(whole) = whole {
                prop_assert!(whole == all, "{} of {}", whole.len(), all.len());
            } else {
                let all = String::from_utf8(all).unwrap();
                prop_assert_eq!(done.text.trim_end(), all.trim_end());
            }
            prop_assert!(done.text.len() < 50_000);
        }
    }
}
