//! Tests of both directions on pipes and sockets.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    pipe::pipe,
};

use super::*;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn lines_come_whole_however_they_are_cut() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let mut input = StdioInput::open(ours, 16).unwrap();
    for piece in ["{\"a\"", ":1}\r\n\n", "0123456789abcdefg\n", "half"] {
        host.write_all(piece.as_bytes()).unwrap();
    }
    drop(host);
    assert_eq!(input.next().await, Some(InputLine::Whole(b"{\"a\":1}".to_vec())));
    let long = input.next().await;
    assert!(matches!(long, Some(InputLine::TooLong { bytes: 17, .. })), "{long:?}");
    assert_eq!(input.next().await, Some(InputLine::Partial(b"half".to_vec())));
    assert_eq!(input.next().await, None);
}

#[tokio::test]
async fn what_is_said_is_written_in_order() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let output = StdioOutput::open(ours).unwrap();
    // A socket buffers only a few tiny writes, so a thread must read meanwhile.
    let reading = std::thread::spawn(move || {
        let mut read = String::new();
        host.read_to_string(&mut read).unwrap();
        read
    });
    for number in 0..1000 {
        output.send(format!("{number}\n").into_bytes()).await.unwrap();
    }
    output.flush(SOON).await.unwrap();
    drop(output);
    let read = reading.join().unwrap();
    let read: Vec<usize> = read.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(read, (0..1000).collect::<Vec<_>>());
}

/// A sender waits when the host does not read, and continues when it reads again.
#[tokio::test]
async fn a_host_that_does_not_read_holds_up_whoever_talks_to_it() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let output = StdioOutput::open(ours).unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(200), output.send(piece.clone())).await.is_ok()
    {
        sent += 1;
        assert!(sent < 64, "nothing holds it up");
    }
    let reading = std::thread::spawn(move || {
        let mut read = vec![0; 1024 * 1024];
        let mut count = 0;
        while let Ok(some @ 1..) = host.read(&mut read) {
            count += some;
        }
        count
    });
    output.send(piece.clone()).await.unwrap();
    output.flush(SOON).await.unwrap();
    drop(output);
    assert_eq!(reading.join().unwrap(), (sent + 1) * piece.len());
}

#[tokio::test]
async fn a_host_that_has_gone_is_noticed() {
    let (host, ours) = UnixStream::pair().unwrap();
    let output = StdioOutput::open(ours).unwrap();
    drop(host);
    while output.send(b"hello\n".to_vec()).await.is_ok() {}
    output.closed().await;
    assert_eq!(output.flush(SOON).await, Err(OutputClosed));
}

/// A host that reads irregularly gets everything in order, whether it was written directly or by
/// the thread.
#[tokio::test]
async fn order_is_kept_between_what_waits_and_what_does_not() {
    let (theirs, ours) = pipe().unwrap();
    let output = StdioOutput::open(ours).unwrap();
    let reading = std::thread::spawn(move || {
        let mut theirs = File::from(theirs);
        let (mut read, mut piece) = (Vec::new(), vec![0; 30_000]);
        loop {
            let count = theirs.read(&mut piece).unwrap();
            if count == 0 {
                return read;
            }
            read.extend_from_slice(&piece[..count]);
            if read.len() % 7 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let mut said = Vec::new();
    for number in 0..400_usize {
        // Tiny lines, some of several pages, and some that only the thread writes.
        let length = [3, 200, 9_000, 40_000][number % 4] + number;
        let digit = b'0' + u8::try_from(number % 10).unwrap();
        let mut line = vec![digit; length];
        line.push(b'\n');
        said.extend_from_slice(&line);
        output.send(line).await.unwrap();
    }
    output.flush(SOON).await.unwrap();
    drop(output);
    assert!(reading.join().unwrap() == said, "something is out of order");
}

#[tokio::test]
async fn a_pipe_is_read_without_waiting_and_left_as_it_was() {
    let (ours, theirs) = pipe().unwrap();
    let kept = ours.try_clone().unwrap();
    let blocks = |stream| !fcntl_getfl(stream).unwrap().contains(OFlags::NONBLOCK);
    let mut input = StdioInput::open(ours, 1 << 20).unwrap();
    let mut host = File::from(theirs);
    assert!(!blocks(&kept));
    host.write_all(b"one\ntwo\nth").unwrap();
    assert_eq!(input.next().await, Some(InputLine::Whole(b"one".to_vec())));
    assert_eq!(input.next().await, Some(InputLine::Whole(b"two".to_vec())));
    let nothing = tokio::time::timeout(Duration::from_millis(50), input.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let long = vec![b'x'; 500_000];
    let rest = [&b"ree\n"[..], &long, b"\n"].concat();
    let writing = std::thread::spawn(move || host.write_all(&rest).unwrap());
    assert_eq!(input.next().await, Some(InputLine::Whole(b"three".to_vec())));
    assert_eq!(input.next().await, Some(InputLine::Whole(long)));
    writing.join().unwrap();
    assert_eq!(input.next().await, None);
    drop(input);
    assert!(blocks(&kept), "whoever reads it next expects it to block");
}
