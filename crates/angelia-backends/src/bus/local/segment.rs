//! The files of the log. They are made in advance and filled with zeros, because a sync is fastest
//! when it only overwrites.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::record::{RECORD_HEADER_BYTES, Record, RecordEncoder};

/// The size of a segment while the bus is quiet.
pub(super) const SMALL_SEGMENT_BYTES: u64 = 1024 * 1024;

/// The size of a segment while the bus is busy. A message larger than this has a segment of its
/// own.
pub(super) const LARGE_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Magic bytes, segment number and checksum seed, 8 bytes each.
pub(super) const SEGMENT_HEADER_BYTES: usize = 24;
const MAGIC: &[u8; 8] = b"ANGBUS\x00\x01";

/// From this rate on a bus counts as busy.
const BUSY_BYTES_PER_SECOND: u64 = 512 * 1024;

/// Room for the record that completes a segment.
const END_RECORD_BYTES: u64 = RECORD_HEADER_BYTES as u64 + 1;

/// The segment that records are written to.
#[derive(Debug)]
pub(super) struct ActiveSegment {
    pub(super) number: u64,
    pub(super) size: u64,
    /// Everything before this offset has been written.
    pub(super) end: u64,
    pub(super) encoder: RecordEncoder,
    file: File,
    /// The encoder's link at `end`.
    link: u32,
    /// The time at which this process started to write to the segment, and its `end` at that time.
    write_start: (Instant, u64),
}

impl ActiveSegment {
    pub(super) fn new(made: SegmentFile, end: u64, link: u32) -> Self {
        Self {
            number: made.number,
            size: made.size,
            end,
            encoder: RecordEncoder { bytes: Vec::new(), seed: made.seed, link },
            file: made.file,
            link,
            write_start: (Instant::now(), end),
        }
    }

    /// Returns whether the segment is filled faster than [`BUSY_BYTES_PER_SECOND`].
    pub(super) fn is_busy(&self) -> bool {
        let (begun, start) = self.write_start;
        let least = Duration::from_millis(50);
        let filled = Duration::from_micros((self.end - start) * 1_000_000 / BUSY_BYTES_PER_SECOND);
        begun.elapsed().max(least) < filled
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.end > self.size / 2
    }

    /// Returns whether there is room for this many more bytes and for the end record.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.next_offset() + bytes as u64 + END_RECORD_BYTES <= self.size
    }

    /// Returns the offset of the next record.
    pub(super) fn next_offset(&self) -> u64 {
        self.end + self.encoder.bytes.len() as u64
    }

    pub(super) fn push(&mut self, record: &Record<'_>) {
        self.encoder.push(record);
    }

    /// Writes the records that were pushed. On an error none of them counts: the next write starts
    /// at the same offset.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.encoder.bytes.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all_at(&self.encoder.bytes, self.end);
        match written {
            Ok(()) => {
                self.end += self.encoder.bytes.len() as u64;
                self.link = self.encoder.link;
            }
            Err(_) => self.encoder.link = self.link,
        }
        self.encoder.bytes.clear();
        // Frees the memory of an unusually large group.
        if self.encoder.bytes.capacity() > 4 * 1024 * 1024 {
            self.encoder.bytes = Vec::new();
        }
        written
    }

    pub(super) fn discard_unwritten(&mut self) {
        self.encoder.bytes.clear();
        self.encoder.link = self.link;
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        self.file.sync_data()
    }
}

/// The open file of a segment.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) number: u64,
    pub(super) size: u64,
    pub(super) seed: u64,
    pub(super) file: File,
}

pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.log"))
}

/// A file that can become a segment. It is named `*.new` until then.
#[derive(Debug)]
pub(super) struct SpareFile {
    file: File,
    path: PathBuf,
    size: u64,
}

impl SpareFile {
    /// Makes a file that has its length but no content: quick to make, and a little slower to
    /// write to.
    pub(super) fn sparse(folder: &Path, size: u64) -> io::Result<Self> {
        let path = folder.join(format!("{}.new", Uuid::new_v4().simple()));
        Self::create_at(path, size)
    }

    fn create_at(path: PathBuf, size: u64) -> io::Result<Self> {
        let file = create(&path)?;
        let sized = file.set_len(size);
        Self { file, path, size }.or_remove(sized)
    }

    /// Makes a file that is filled with zeros and synced.
    pub(super) fn zero_filled(folder: &Path, size: u64) -> io::Result<Self> {
        let spare = Self::sparse(folder, size)?;
        let fill = || -> io::Result<()> {
            let zeros = vec![0; 256 * 1024];
            for offset in (0..size).step_by(zeros.len()) {
                spare.file.write_all_at(&zeros, offset)?;
            }
            spare.file.sync_all()
        };
        let filled = fill();
        spare.or_remove(filled)
    }

    /// Reuses the file of a retired segment, with its old content.
    pub(super) fn reuse(path: PathBuf, size: u64) -> io::Result<Self> {
        Self::create_at(path, size)
    }

    /// Removes the file if it could not be completed.
    fn or_remove(self, done: io::Result<()>) -> io::Result<Self> {
        match done {
            Ok(()) => Ok(self),
            Err(error) => {
                let _gone = fs::remove_file(&self.path);
                Err(error)
            }
        }
    }

    /// Writes the header and renames the file. The header is synced together with the first record.
    pub(super) fn become_segment(self, folder: &Path, number: u64) -> io::Result<SegmentFile> {
        let seed = Uuid::new_v4().as_u64_pair().1;
        let mut header = [0; SEGMENT_HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[16..].copy_from_slice(&seed.to_le_bytes());
        self.file.write_all_at(&header, 0)?;
        fs::rename(&self.path, path(folder, number))?;
        sync_folder(folder)?;
        Ok(SegmentFile { number, size: self.size, seed, file: self.file })
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens a segment, or returns `None` if the file has no valid header.
pub(super) fn open(folder: &Path, number: u64) -> io::Result<Option<SegmentFile>> {
    let file = OpenOptions::new().read(true).write(true).open(path(folder, number))?;
    let size = file.metadata()?.len();
    let mut header = [0; SEGMENT_HEADER_BYTES];
    if size < SEGMENT_HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0)?;
    let (magic, rest) = header.split_at(8);
    let (own_number, seed) = rest.split_at(8);
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    if magic != MAGIC || word(own_number) != number {
        return Ok(None);
    }
    Ok(Some(SegmentFile { number, size, seed: word(seed), file }))
}

/// Returns the numbers of all segments, ascending. Removes spare files that a killed process has
/// left.
pub(super) fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(|end| end.to_str()) {
            Some("new") => fs::remove_file(&path)?,
            Some("log") => {
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                numbers.extend(stem.and_then(|stem| u64::from_str_radix(stem, 16).ok()));
            }
            _ => {}
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Syncs the folder: only then does a new file name in it survive a power failure.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
