//! The least client of Postgres that a test needs: statements as text, over a Unix socket, to a server
//! that trusts everybody.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

/// The columns of a row as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 196_608;

const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs statements, and returns the rows of all of them.
pub fn query(socket: &Path, user: &str, database: &str, sql: &str) -> Result<Vec<Row>> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let startup = format!("user\0{user}\0database\0{database}\0\0");
    let mut message = PROTOCOL.to_be_bytes().to_vec();
    message.extend_from_slice(startup.as_bytes());
    stream.write_all(&with_length(&message)?)?;
    read_until_ready(&mut stream)?;
    let mut message = vec![b'Q'];
    message.extend(with_length(format!("{sql}\0").as_bytes())?);
    stream.write_all(&message)?;
    let rows = read_until_ready(&mut stream).with_context(|| format!("`{sql}`"))?;
    stream.write_all(&[b'X', 0, 0, 0, 4])?;
    Ok(rows)
}

fn with_length(body: &[u8]) -> Result<Vec<u8>> {
    let length = i32::try_from(body.len() + 4)?;
    Ok([&length.to_be_bytes(), body].concat())
}

/// Reads messages until the server waits for the next statement.
fn read_until_ready(stream: &mut UnixStream) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut failure = None;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length)?.saturating_sub(4)];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'D' => rows.push(read_row(&body).context("a row is cut short")?),
            b'E' => {
                let text = String::from_utf8_lossy(&body).replace('\0', " ");
                // An error before the first statement ends the connection.
                if failure.replace(text).is_some() {
                    break;
                }
            }
            b'Z' => break,
            _ => {}
        }
        if let (Some(failure), b'E') = (&failure, head[0])
            && failure.contains("FATAL")
        {
            break;
        }
    }
    match failure {
        Some(failure) => bail!("{failure}"),
        None => Ok(rows),
    }
}

fn read_row(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_at_checked(2)?;
    let mut row = Vec::new();
    for _ in 0..u16::from_be_bytes([count[0], count[1]]) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            // A negative length is NULL.
            rest = after;
            row.push(None);
            continue;
        };
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        row.push(Some(String::from_utf8_lossy(value).into_owned()));
    }
    Some(row)
}
