//! Reads the configuration file within a size limit, and checks that it is text before it is
//! parsed.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use super::{
    home::Home,
    node::{Node, ValueOrigin},
    problem::Problem,
    yaml,
};

/// A larger file cannot be a configuration.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads the home's file, or the named one. A missing file in the home is an empty configuration; a
/// named file must exist.
pub(crate) fn read(home: &Home, explicit: Option<&Path>) -> Result<Node, Problem> {
    let default = home.config_file();
    let (path, name): (&Path, Arc<str>) = match explicit {
        Some(path) => (path, path.display().to_string().into()),
        None => (&default, "config.yaml".into()),
    };
    // Opening a pipe would wait for a writer.
    if path.exists() && !path.is_file() {
        let what = "cannot be read: it is not a regular file; write the settings into one";
        return Err(Problem::file(&path.display().to_string(), what));
    }
    let bytes = match read_bounded(path) {
        Ok(bytes) => bytes,
        Err(error) if explicit.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Node::empty_map());
        }
        Err(error) => {
            let what = format!("cannot be read: {error}; check its path and permissions");
            return Err(Problem::file(&path.display().to_string(), what));
        }
    };
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Problem::file(&name, "is larger than 1 MiB; is it the right file?"));
    }
    yaml::parse(decode_text(&bytes, &name)?, &name)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode_text<'a>(bytes: &'a [u8], name: &Arc<str>) -> Result<&'a str, Problem> {
    let line = |at: usize| {
        let before = bytes.get(..at).unwrap_or_default();
        let lines = before.split(|byte| *byte == b'\n').count();
        ValueOrigin::File { name: Arc::clone(name), line: lines as u64 }
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        let what = "has a NUL byte: this is not a text file";
        return Err(Problem::at_origin(line(at), what));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let what = "is not UTF-8 text; save the file as UTF-8";
        Problem::at_origin(line(error.valid_up_to()), what)
    })
}
