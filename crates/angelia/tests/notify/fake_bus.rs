//! A fake bus: reads one message per connection and gives the answers that the test has set.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::mpsc,
    thread,
};

use serde_json::Value;

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
                let mut length = [0; 4];
                stream.read_exact(&mut length).unwrap();
                let mut json = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut json).unwrap();
                let message: Value = serde_json::from_slice(&json).unwrap();
                let id = message["id"].as_str().unwrap();
                for answer in answers {
                    let answer = answer.replace("ID", id);
                    let prefix = u32::try_from(answer.len()).unwrap().to_be_bytes();
                    stream.write_all(&prefix).unwrap();
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                sender.send(message).unwrap();
                // Wait until the sender has disconnected.
                let _end = stream.read(&mut [0]);
            }
        });
        Self { socket, messages: heard }
    }

    pub(crate) fn next_message(&self) -> Value {
        self.messages.recv_timeout(DEADLINE).unwrap()
    }
}
