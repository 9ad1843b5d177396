//! A fake bus: reads one message per connection and gives the answers that the test has set. It
//! answers pings as our bus does.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use super::notify_fixture::{DEADLINE, NotifyFixture};

pub(crate) struct FakeBus {
    pub(crate) socket: PathBuf,
    messages: mpsc::Receiver<Value>,
}

impl FakeBus {
    /// Starts with the answers to each message; `ID` in them stands for the message's id.
    pub(crate) fn new(place: &NotifyFixture, name: &str, answers: Vec<Vec<&'static str>>) -> Self {
        let socket = place.path(name);
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let (sender, heard) = mpsc::sync_channel(16);
        thread::spawn(move || {
            for answers in answers {
                let (mut stream, _) = listener.accept().unwrap();
                // Until the sender has disconnected.
                while let Some(frame) = read_frame(&mut stream) {
                    if frame["type"] == "ping" {
                        let acks = frame["ack"] == true;
                        write_frame(&mut stream, &json!({"type": "pong", "ack": acks}).to_string());
                        continue;
                    }
                    let id = frame["id"].as_str().unwrap();
                    for answer in &answers {
                        write_frame(&mut stream, &answer.replace("ID", id));
                    }
                    sender.send(frame).unwrap();
                }
            }
        });
        Self { socket, messages: heard }
    }

    pub(crate) fn next_message(&self) -> Value {
        self.messages.recv_timeout(DEADLINE).unwrap()
    }
}

fn read_frame(stream: &mut UnixStream) -> Option<Value> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut json = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut json).ok()?;
    Some(serde_json::from_slice(&json).unwrap())
}

/// Writes a frame. The sender may have left already.
fn write_frame(stream: &mut UnixStream, json: &str) {
    let prefix = u32::try_from(json.len()).unwrap().to_be_bytes();
    let _gone = stream.write_all(&[&prefix, json.as_bytes()].concat());
}
