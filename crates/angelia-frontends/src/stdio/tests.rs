//! Both ends on pipes.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use super::*;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn lines_come_whole_however_they_are_cut() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let mut input = Input::open(ours, 16).unwrap();
    for piece in ["{\"a\"", ":1}\r\n\n", "0123456789abcdefg\n", "half"] {
        host.write_all(piece.as_bytes()).unwrap();
    }
    drop(host);
    assert_eq!(input.next().await, Some(Line::Whole(b"{\"a\":1}".to_vec())));
    let long = input.next().await;
    assert!(
        matches!(long, Some(Line::TooLong { bytes: 17, .. })),
        "{long:?}"
    );
    assert_eq!(input.next().await, Some(Line::Partial(b"half".to_vec())));
    assert_eq!(input.next().await, None);
}

#[tokio::test]
async fn what_is_said_is_written_in_order() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let output = Output::open(ours).unwrap();
    // A socket holds few tiny writes, so somebody has to read meanwhile.
    let reading = std::thread::spawn(move || {
        let mut read = String::new();
        host.read_to_string(&mut read).unwrap();
        read
    });
    for number in 0..1000 {
        output
            .send(format!("{number}\n").into_bytes())
            .await
            .unwrap();
    }
    output.written(SOON).await.unwrap();
    drop(output);
    let read = reading.join().unwrap();
    let read: Vec<usize> = read.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(read, (0..1000).collect::<Vec<_>>());
}

/// Whoever says more than a host reads waits, and goes on when it reads again.
#[tokio::test]
async fn a_host_that_does_not_read_holds_up_whoever_talks_to_it() {
    let (mut host, ours) = UnixStream::pair().unwrap();
    let output = Output::open(ours).unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(200), output.send(piece.clone()))
        .await
        .is_ok()
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
    output.written(SOON).await.unwrap();
    drop(output);
    assert_eq!(reading.join().unwrap(), (sent + 1) * piece.len());
}

#[tokio::test]
async fn a_host_that_has_gone_is_noticed() {
    let (host, ours) = UnixStream::pair().unwrap();
    let output = Output::open(ours).unwrap();
    drop(host);
    while output.send(b"hello\n".to_vec()).await.is_ok() {}
    output.gone().await;
    assert_eq!(output.written(SOON).await, Err(Gone));
}
