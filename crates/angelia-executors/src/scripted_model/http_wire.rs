//! HTTP/1.1 at the byte level: reads requests, writes response heads and chunks.

use std::{fmt::Write as _, io, time::Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{encoded_response::EncodedResponse, request_log::RecordedRequest};

const MAX_HEAD_BYTES: usize = 256 * 1024;

/// Reads one request. Returns `None` if the client closed the connection between two requests.
pub(super) async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
) -> io::Result<Option<RecordedRequest>> {
    let head_length = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break end;
        }
        if buffer.len() > MAX_HEAD_BYTES {
            return Err(invalid("the head of the request is too long"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = buffer.split_to(head_length);
    buffer.advance(4);
    let mut request = parse_head(&String::from_utf8_lossy(&head))?;
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    request.body = if request.header("transfer-encoding").is_some() {
        read_chunked(stream, buffer).await?
    } else {
        let length = request.header("content-length").map_or(Ok(0), str::parse);
        read_exactly(stream, buffer, length.map_err(|_| invalid("bad content-length"))?).await?
    };
    Ok(Some(request))
}

fn parse_head(head: &str) -> io::Result<RecordedRequest> {
    let mut lines = head.split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (start.next(), start.next()) else {
        return Err(invalid("bad request line"));
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(RecordedRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query,
        headers,
        body: Bytes::new(),
        at: Instant::now(),
    })
}

async fn read_exactly(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    length: usize,
) -> io::Result<Bytes> {
    buffer.reserve(length.saturating_sub(buffer.len()));
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.split_to(length).freeze())
}

async fn read_chunked(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let line = loop {
            if let Some(end) = find(buffer, b"\r\n") {
                break end;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let line = buffer.split_to(line);
        buffer.advance(2);
        let size = String::from_utf8_lossy(&line);
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid("bad chunk size"))?;
        let chunk = read_exactly(stream, buffer, size + 2).await?;
        if size == 0 {
            return Ok(body.freeze());
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

/// Builds the head of a response. `length` is `None` for a chunked response.
pub(super) fn head(response: &EncodedResponse, length: Option<usize>) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {}\r\n",
        response.status,
        reason(response.status),
        response.content_type
    );
    for (name, value) in &response.headers {
        // Writing to a string cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = match length {
        Some(length) => write!(head, "content-length: {length}\r\n\r\n"),
        None => write!(head, "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"),
    };
    head.into_bytes()
}

pub(super) fn push_chunk(out: &mut Vec<u8>, frame: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\n", frame.len()).as_bytes());
    out.extend_from_slice(frame);
    out.extend_from_slice(b"\r\n");
}

pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Scripted",
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
