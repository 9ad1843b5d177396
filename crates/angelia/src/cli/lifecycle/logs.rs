//! `angelia logs`: the last lines of the daemon's log, and with `-f` those that follow.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    config::Home,
    log::rotating_file,
};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Print new lines as they arrive, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,

    /// The number of lines to print.
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    lines: usize,
}

const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(home: &Home, args: &LogsArgs) -> Result<Exit, CommandError> {
    let path = home.daemon_log();
    let mut file = match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound && args.follow => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("there is no log yet: {}", path.display());
            let hint = "`angelia start` starts the daemon that writes it";
            return Err(CommandError::new(Exit::Failed, message).with_hint(hint));
        }
        Err(error) => return Err(unreadable(&path, &error)),
    };
    if let Some(file) = &mut file {
        let text = last_lines(file, &home.older_daemon_log(), args.lines);
        let text = text.map_err(|error| unreadable(&path, &error))?;
        if print_or_leave(&text)? {
            return Ok(Exit::Done);
        }
    }
    if args.follow { follow(file, &path) } else { Ok(Exit::Done) }
}

/// Prints new log text as it arrives, until the reader is gone.
fn follow(mut file: Option<File>, path: &Path) -> Result<Exit, CommandError> {
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let (text, next) = read_on(file, path).map_err(|error| unreadable(path, &error))?;
        file = next;
        if print_or_leave(&text)? {
            return Ok(Exit::Done);
        }
    }
}

/// Prints a text and returns whether the reader is gone.
fn print_or_leave(text: &[u8]) -> Result<bool, CommandError> {
    match print::write_stdout(text) {
        Err(error) if print::is_reader_gone(&error) => Ok(true),
        Err(error) => Err(print::output_error(&error)),
        Ok(()) => Ok(false),
    }
}

/// Returns the last lines of the log, including those of the previous file. Leaves the file's
/// position at its end.
fn last_lines(file: &mut File, older: &Path, count: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // The end of the line before the wanted ones. If there is none, the older file may have more
    // lines.
    let mut start = line_end_from_last(&text, count);
    if start.is_none()
        && let Ok(mut before) = fs::read(older)
    {
        before.append(&mut text);
        text = before;
        start = line_end_from_last(&text, count);
    }
    let start = start.unwrap_or(0);
    text.drain(..start);
    Ok(text)
}

/// Returns the end of the line that is followed by `count` whole lines.
fn line_end_from_last(text: &[u8], count: usize) -> Option<usize> {
    let mut ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    ends.nth(count).map(|(at, _)| at + 1)
}

/// Reads the text that was added, even if the file was rotated in the meantime.
fn read_on(file: Option<File>, path: &Path) -> io::Result<(Vec<u8>, Option<File>)> {
    let mut text = Vec::new();
    let Some(mut file) = file else {
        return match File::open(path) {
            Ok(file) => read_on(Some(file), path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((text, None)),
            Err(error) => Err(error),
        };
    };
    if file.metadata()?.len() < file.stream_position()? {
        file.seek(SeekFrom::Start(0))?;
    }
    // Look this up before reading the rest, because a rotated file is no longer written.
    let named = fs::metadata(path).ok().map(|named| (named.dev(), named.ino()));
    file.read_to_end(&mut text)?;
    let own = file.metadata()?;
    if named == Some((own.dev(), own.ino())) {
        return Ok((text, Some(file)));
    }
    for path in begun_after(&own, path) {
        text.extend(fs::read(path)?);
    }
    let (mut rest, next) = read_on(None, path)?;
    text.append(&mut rest);
    Ok((text, next))
}

/// Returns the files that were started after this one and have been rotated too, oldest first.
fn begun_after(own: &Metadata, path: &Path) -> Vec<PathBuf> {
    let mut newer: Vec<_> = (1..u32::MAX)
        .map(|number| rotating_file::numbered(path, number))
        .take_while(|path| {
            fs::metadata(path)
                .is_ok_and(|found| (found.dev(), found.ino()) != (own.dev(), own.ino()))
        })
        .collect();
    newer.reverse();
    newer
}

fn unreadable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(Exit::Failed, format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_include_those_of_the_file_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, older) = (folder.path().join("a"), folder.path().join("a.1"));
        fs::write(&older, "1\n2\n3\n").unwrap();
        fs::write(&path, "4\n5\n").unwrap();
        let last = |count| {
            let text = last_lines(&mut File::open(&path).unwrap(), &older, count).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(last(0), "");
        assert_eq!(last(2), "4\n5\n");
        assert_eq!(last(4), "2\n3\n4\n5\n");
        assert_eq!(last(9), "1\n2\n3\n4\n5\n");
    }

    #[test]
    fn no_line_is_missed_when_a_new_file_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (path, older) = (folder.path().join("a"), folder.path().join("a.1"));
        let (text, file) = read_on(None, &path).unwrap();
        assert!(text.is_empty() && file.is_none());
        fs::write(&path, "one\n").unwrap();
        let (text, file) = read_on(file, &path).unwrap();
        assert_eq!(text, b"one\n");
        fs::write(&path, "one\ntwo\n").unwrap();
        fs::rename(&path, &older).unwrap();
        fs::write(&path, "three\n").unwrap();
        let (text, file) = read_on(file, &path).unwrap();
        assert_eq!(text, b"two\nthree\n");
        fs::rename(&older, folder.path().join("a.3")).unwrap();
        fs::rename(&path, folder.path().join("a.2")).unwrap();
        fs::write(&older, "four\n").unwrap();
        fs::write(&path, "five\n").unwrap();
        let (text, file) = read_on(file, &path).unwrap();
        assert_eq!(text, b"four\nfive\n");
        assert_eq!(read_on(file, &path).unwrap().0, b"");
    }
}
