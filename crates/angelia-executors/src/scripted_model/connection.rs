//! Serves client connections: reads requests and writes the scripted responses, including all
//! broken ones.

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    encoded_response::{EncodedResponse, ResponseBody, StreamEnd},
    http_wire,
    request_log::RequestLog,
    responder::Responder,
};

/// The pause between keep-alives in a stream that sends nothing else.
const KEEP_ALIVE_PAUSE: Duration = Duration::from_millis(5);

/// Accepts connections until the future is dropped, which also drops every connection.
pub(super) async fn accept(listener: TcpListener, responder: Arc<Responder>, log: Arc<RequestLog>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (responder, log) = (responder.clone(), log.clone());
                connections.spawn(async move {
                    // Tests disconnect on purpose; for the server that is not an error.
                    let _ = serve(stream, &responder, &log).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut stream: TcpStream, responder: &Responder, log: &RequestLog) -> io::Result<()> {
    // Without this, small writes wait for the client's delayed TCP acks: 40 ms per turn.
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    while let Some(request) = http_wire::read_request(&mut stream, &mut buffer).await? {
        let request = Arc::new(request);
        log.record(&request);
        let response = responder.respond(&request);
        let head_only = request.method == "HEAD";
        match write(&mut stream, &mut buffer, response, head_only).await {
            Ok(AfterResponse::Keep) => {}
            Ok(AfterResponse::Close) => break,
            Err(error) => {
                log.count_abandoned();
                return Err(error);
            }
        }
    }
    Ok(())
}

enum AfterResponse {
    Keep,
    Close,
}

async fn write(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    mut response: EncodedResponse,
    head_only: bool,
) -> io::Result<AfterResponse> {
    if !response.wait.is_zero() {
        wait_while_connected(stream, buffer, Some(response.wait)).await?;
    }
    // Move the body out: `http_wire::head` still needs the rest of the response.
    match std::mem::replace(&mut response.body, ResponseBody::Never) {
        ResponseBody::Never => {
            wait_while_connected(stream, buffer, None).await?;
            Ok(AfterResponse::Close)
        }
        ResponseBody::Whole(body) => {
            let mut out = http_wire::head(&response, Some(body.len()));
            if !head_only {
                out.extend_from_slice(&body);
            }
            stream.write_all(&out).await?;
            Ok(AfterResponse::Keep)
        }
        ResponseBody::Stream { frames, pause, end } => {
            let mut out = http_wire::head(&response, None);
            for (index, frame) in frames.iter().enumerate() {
                if index > 0 && !pause.is_zero() {
                    stream.write_all(&out).await?;
                    out.clear();
                    wait_while_connected(stream, buffer, Some(pause)).await?;
                }
                http_wire::push_chunk(&mut out, frame);
            }
            if end == StreamEnd::Complete {
                out.extend_from_slice(http_wire::LAST_CHUNK);
            }
            stream.write_all(&out).await?;
            finish(stream, buffer, end).await
        }
    }
}

async fn finish(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    end: StreamEnd,
) -> io::Result<AfterResponse> {
    match end {
        StreamEnd::Complete => Ok(AfterResponse::Keep),
        StreamEnd::Hang => {
            wait_while_connected(stream, buffer, None).await?;
            Ok(AfterResponse::Close)
        }
        StreamEnd::Reset => {
            // A reset discards data that the client has not read yet, so let the client read the
            // delta first.
            wait_while_connected(stream, buffer, Some(Duration::from_millis(30))).await?;
            stream.set_zero_linger()?;
            Ok(AfterResponse::Close)
        }
        StreamEnd::Repeat(frame) => {
            let mut chunk = Vec::new();
            http_wire::push_chunk(&mut chunk, &frame);
            loop {
                stream.write_all(&chunk).await?;
                wait_while_connected(stream, buffer, Some(KEEP_ALIVE_PAUSE)).await?;
            }
        }
    }
}

/// Waits for `time`, or forever if it is `None`. Fails as soon as the client disconnects.
async fn wait_while_connected(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    time: Option<Duration>,
) -> io::Result<()> {
    let over = async {
        match time {
            // The runtime's timer has a resolution of one millisecond; for less, only yield once.
            Some(time) if time < Duration::from_millis(1) => tokio::task::yield_now().await,
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return Ok(()),
            read = stream.read_buf(buffer) => {
                if read? == 0 {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
    }
}
